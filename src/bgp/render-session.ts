import { at, type Problem } from '../base/problem.ts';
import { formatAddress } from '../net/address.ts';
import { quoteText } from './quote-text.ts';
import type { BfdTimers, ReadySession, SessionKind } from './session.ts';

/** The limit of the kernel (TCP_MD5SIG_MAXKEYLEN). */
const LONGEST_PASSWORD_BYTES = 80;

/** Renders the protocol of a session, or returns a problem when its password is unusable. */
export function renderSession(session: ReadySession): { readonly text: string } | { readonly problem: Problem } {
  const password = session.password === undefined ? '' : passwordText(session.password);
  if (password === undefined) return { problem: passwordProblem(session) };
  const source = session.sourceAddress === undefined ? '' : ` ${formatAddress(session.sourceAddress)}`;
  const { reflectorClusterId } = session;
  const lines = [
    `description ${quoteText(describeSession(session)) ?? `"${session.kind}"`};`,
    `local${source} port ${String(session.listenPort)} as ${String(session.ownAs)};`,
    `neighbor ${formatAddress(session.peerAddress)} port ${String(session.peerPort)} as ${String(session.peerAs)};`,
    reachText(session),
    ...(session.isPassive ? ['passive;'] : []),
    ...(reflectorClusterId === undefined ? [] : ['rr client;', `rr cluster id ${formatAddress(reflectorClusterId)};`]),
    ...(password === '' ? [] : [`password ${password};`]),
    ...(session.allowedOwnAs === 0 ? [] : [`allow local as ${String(session.allowedOwnAs)};`]),
    ...(session.ttlSecurityHops === undefined ? [] : ['ttl security;']),
    ...(session.bfd === undefined ? [] : [bfdText(session.bfd)]),
    'connect delay time 2;',
    'connect retry time 5;',
    'error wait time 5, 30;',
    'graceful restart;',
    `graceful restart time ${String(session.restartTimeS)};`,
    `ipv${String(session.family)} {`,
    ...channelLines(session).map((line) => `  ${line}`),
    '};',
  ];
  return { text: [`protocol bgp ${session.name} {`, ...lines.map((line) => `  ${line}`), '}', ''].join('\n') };
}

/** Returns the description of a session, which `describedSession` decodes. */
function describeSession({ kind, peerNode }: ReadySession): string {
  return peerNode === undefined ? kind : `${kind} ${peerNode}`;
}

/** Decodes the description of a protocol; undefined for a protocol that netplug did not configure. */
export function describedSession(
  description: string,
): { readonly kind: SessionKind; readonly peerNode: string | undefined } | undefined {
  const [kind, peerNode] = description.split(' ');
  return kind === 'mesh' || kind === 'node' || kind === 'global' ? { kind, peerNode } : undefined;
}

function reachText({ reach, ttlSecurityHops }: ReadySession): string {
  if (reach === 'direct' && (ttlSecurityHops ?? 1) === 1) return 'direct;';
  return ttlSecurityHops === undefined ? 'multihop;' : `multihop ${String(ttlSecurityHops)};`;
}

/**
 * Without `graceful`, BIRD drops the routes of a lost peer at once instead of keeping them for the restart time. BFD of BIRD ends
 * with the process, so that no peer can tell a restart of BIRD from a lost node.
 */
function bfdText({ intervalMs, multiplier }: BfdTimers): string {
  return `bfd { interval ${String(intervalMs)} ms; multiplier ${String(multiplier)}; };`;
}

function channelLines({ family, accepts, announces, nextHop, peerNode }: ReadySession): string[] {
  const f = String(family);
  return [
    `import filter ${accepts === 'pools' ? 'from_node' : 'from_outside'}${f};`,
    `export filter ${announces === 'own' ? 'own' : 'own_and_learned'}${f};`,
    `next hop ${nextHop};`,
    // The next hop of a reflected route may lie behind a router although the reflector is in the own subnet.
    ...(peerNode === undefined ? [] : ['gateway recursive;']),
  ];
}

function passwordText(password: string): string | undefined {
  const size = new TextEncoder().encode(password).length;
  return size === 0 || size > LONGEST_PASSWORD_BYTES ? undefined : quoteText(password);
}

function passwordProblem({ name, peerAddress }: ReadySession): Problem {
  return {
    path: at('session', name, 'password'),
    message: `no session with ${formatAddress(peerAddress)}: its password cannot be used`,
    hint: 'Choose one of 1 to 80 bytes, without double quotes, line breaks and other control characters',
    code: 'bgp/peer-unusable',
  };
}
