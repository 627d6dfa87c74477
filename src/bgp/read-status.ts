import { type Address, formatAddress, tryParseAddress } from '../net/address.ts';
import type { BirdReply } from './control-socket.ts';
import { describedSession } from './render-session.ts';
import type { SessionKind } from './session.ts';

/** The state of a session in BIRD. */
export interface SessionStatus {
  /** The name of its protocol, as planned. */
  readonly name: string;
  readonly kind: SessionKind;
  readonly peerNode: string | undefined;
  readonly peerAddress: Address;
  readonly peerAs: number;
  /** State by RFC 4271: `Established`, `Active`, `Connect`, …; `Passive` for one that waits to be dialled. */
  readonly state: string;
  /** When it came into this state, in milliseconds since the epoch. */
  readonly sinceMs: number;
  /** The last error; empty when there was none. */
  readonly info: string;
  /** State by RFC 5880: `Up`, `Down`, `Init` or `AdminDown`; undefined where BFD does not watch the peer. */
  readonly bfd: string | undefined;
  readonly routesImported: number;
  readonly routesExported: number;
  /**
   * Time for which the peer of an established session keeps routes while BIRD restarts (RFC 4724), in seconds. It does not
   * while BFD is up, which ends with BIRD.
   */
  readonly keepsRoutesS: number;
}

const ROW = /^(?<name>\S+)\s+BGP\s+\S+\s+\S+\s+(?<since>\S+)\s*(?<state>\S*)\s*(?<info>.*)$/;
/** What BIRD says of a session while another program has its port. It does not try again by itself. */
const NO_SOCKET = 'No listening socket';
const ROW_CODE = 1002;
const DETAIL_CODE = 1006;
const BFD_ROW = /^(?<address>\S+)\s+\S+\s+(?<state>Up|Down|Init|AdminDown)\s/;
const BFD_CODE = 1020;

/** Reports whether a reply to `show protocols all` has BFD. */
export function hasBfd(reply: BirdReply): boolean {
  return reply.some(({ code, text }) => code === ROW_CODE && /^\S+\s+BFD\s/.test(text));
}

/** Returns the states in a reply to `show bfd sessions`, by the address of the peer. */
export function readBfdStates(reply: BirdReply): ReadonlyMap<string, string> {
  const states = new Map<string, string>();
  for (const { code, text } of reply) {
    const { address = '', state = '' } = (code === BFD_CODE ? BFD_ROW.exec(text)?.groups : undefined) ?? {};
    const peer = tryParseAddress(address);
    if (peer !== undefined) states.set(formatAddress(peer), state);
  }
  return states;
}

/** Returns the sessions in a reply to `show protocols all`, in the order of the configuration. `bfd` is from `readBfdStates`. */
export function readSessions(reply: BirdReply, bfd: ReadonlyMap<string, string>): SessionStatus[] {
  const sessions: SessionStatus[] = [];
  for (const [index, { code, text }] of reply.entries()) {
    const row = code === ROW_CODE ? ROW.exec(text)?.groups : undefined;
    if (row === undefined) continue;
    const rest = reply.slice(index + 1);
    const end = rest.findIndex((line) => line.code !== DETAIL_CODE);
    const session = readSession(
      row,
      rest.slice(0, end === -1 ? undefined : end).map((line) => line.text),
    );
    if (session !== undefined) sessions.push({ ...session, bfd: bfd.get(formatAddress(session.peerAddress)) });
  }
  return sessions;
}

function readSession(
  row: Readonly<Record<string, string>>,
  details: readonly string[],
): Omit<SessionStatus, 'bfd'> | undefined {
  const described = describedSession(detailOf(details, 'Description') ?? '');
  const peerAddress = tryParseAddress(detailOf(details, 'Neighbor address') ?? '');
  // A protocol that netplug did not configure.
  if (described === undefined || peerAddress === undefined) return undefined;
  const routes = /^(\d+) imported, (?:\d+ filtered, )?(\d+) exported/.exec(detailOf(details, 'Routes') ?? '');
  return {
    name: row['name'] ?? '',
    ...described,
    peerAddress,
    peerAs: Number(detailOf(details, 'Neighbor AS')),
    ...stateIn(row, details),
    sinceMs: Date.parse(row['since'] ?? ''),
    routesImported: Number(routes?.[1] ?? 0),
    routesExported: Number(routes?.[2] ?? 0),
    keepsRoutesS: restartTimeOf(details),
  };
}

/** Reports whether the session cannot begin, because BIRD cannot listen. */
export function isDeaf({ info }: Pick<SessionStatus, 'info'>): boolean {
  return info.includes(NO_SOCKET);
}

/** A row of a session that is down has no state, and begins with what is wrong. */
function stateIn(
  { state = '', info = '' }: Readonly<Record<string, string>>,
  details: readonly string[],
): Pick<SessionStatus, 'state' | 'info'> {
  return state.endsWith(':')
    ? { state: detailOf(details, 'BGP state') ?? 'Down', info: `${state} ${info.trim()}` }
    : { state, info: info.trim() };
}

/** Returns the restart time that BIRD has announced, 0 unless the peer supports graceful restart. */
function restartTimeOf(details: readonly string[]): number {
  if (!capabilitiesOf('Neighbor', details).includes('Graceful restart')) return 0;
  return Number(detailOf(capabilitiesOf('Local', details), 'Restart time') ?? 0);
}

function capabilitiesOf(side: 'Local' | 'Neighbor', details: readonly string[]): readonly string[] {
  const start = details.findIndex((line) => line.trim() === `${side} capabilities`);
  if (start === -1) return [];
  const depth = indentOf(details[start] ?? '');
  const rest = details.slice(start + 1);
  const end = rest.findIndex((line) => indentOf(line) <= depth);
  return rest.slice(0, end === -1 ? undefined : end).map((line) => line.trim());
}

function indentOf(line: string): number {
  return line.search(/\S/);
}

function detailOf(details: readonly string[], name: string): string | undefined {
  const start = `${name}:`;
  return details
    .map((line) => line.trim())
    .find((line) => line.startsWith(start))
    ?.slice(start.length)
    .trim();
}
