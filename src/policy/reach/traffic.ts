import { hasPorts, protocolName, protocolNumber } from '../../model/protocol.ts';

const ICMP = 1;
/** Stands for every protocol that no rule names. */
export const OTHER_PROTOCOLS = 0;
export const LAST_PORT = 65_535;

const REQUESTS = ['some', 'all but some'] as const;

const ALWAYS: readonly number[] = [...(['TCP', 'UDP', 'SCTP'] as const).map(protocolNumber), ICMP, OTHER_PROTOCOLS];

/** Destination ports of one protocol, inclusive. A protocol without ports has 0 to 0; ICMP means an echo request. */
export interface Traffic {
  /** IANA number, or `OTHER_PROTOCOLS`. */
  readonly protocol: number;
  readonly first: number;
  readonly last: number;
  /** Set for a part of the requests there: those that a rule with http allows, or all others. */
  readonly requests?: (typeof REQUESTS)[number];
}

/** Returns all traffic, where rules name these protocols. */
export function allTraffic(named: Iterable<number>): readonly Traffic[] {
  const isIcmp = (protocol: number): boolean => protocol === ICMP || protocol === 58;
  const protocols = new Set([
    ...ALWAYS,
    ...[...named].filter((protocol) => !isIcmp(protocol)).toSorted((a, b) => a - b),
  ]);
  return [...protocols].map((protocol) =>
    hasPorts(protocol) ? { protocol, first: 1, last: LAST_PORT } : { protocol, first: 0, last: 0 },
  );
}

/** Reports whether the traffic is all ports of its protocol. */
function hasAllPorts({ first, last }: Traffic): boolean {
  return first <= 1 && (last === LAST_PORT || last === 0);
}

/** Returns what is in `whole` and not in `part`, both in order of `whole`. */
export function complementOf(part: readonly Traffic[], whole: readonly Traffic[]): readonly Traffic[] {
  return whole.flatMap(({ protocol, first, last }) => {
    const rest: Traffic[] = [];
    let next = first;
    for (const taken of part.filter((each) => each.protocol === protocol).toSorted((a, b) => a.first - b.first)) {
      if (taken.first > next) rest.push({ protocol, first: next, last: taken.first - 1 });
      next = taken.last + 1;
    }
    return next > last ? rest : [...rest, { protocol, first: next, last }];
  });
}

/** Returns the same traffic with adjacent ports joined. The list is in order within each protocol. */
export function joinTraffic(list: readonly Traffic[]): readonly Traffic[] {
  const joined: Traffic[] = [];
  for (const each of list) {
    const before = joined.at(-1);
    if (before?.protocol === each.protocol && before.requests === each.requests && before.last + 1 === each.first) {
      joined[joined.length - 1] = { ...before, last: each.last };
    } else joined.push(each);
  }
  return joined;
}

/** Returns the one of the list that has the first port of the traffic. */
export function partWith<T extends Traffic>(
  list: readonly T[],
  { protocol, first }: Omit<Traffic, 'last'>,
): T | undefined {
  return list.find((each) => each.protocol === protocol && each.first <= first && first <= each.last);
}

/**
 * Returns a text such as `TCP 80, 443; UDP 53`, `all traffic`, or `all traffic except TCP 8080`, with `some requests over TCP 8080` for
 * what sidecars decide.
 */
export function describeTraffic(part: readonly Traffic[], whole: readonly Traffic[]): string {
  const plain = part.filter(({ requests }) => requests === undefined);
  const requests = REQUESTS.flatMap((which) => {
    const at = part.filter((each) => each.requests === which);
    return at.length === 0 ? [] : [`${which} requests over ${listTraffic(at)}`];
  });
  return [...(plain.length > 0 || requests.length === 0 ? [describePlain(plain, whole)] : []), ...requests].join('; ');
}

function describePlain(part: readonly Traffic[], whole: readonly Traffic[]): string {
  if (part.length === 0) return 'no traffic';
  const rest = complementOf(part, whole);
  if (rest.length === 0) return 'all traffic';
  const isMost = part.some(({ protocol }) => protocol === OTHER_PROTOCOLS);
  return isMost ? `all traffic except ${listTraffic(rest)}` : listTraffic(part);
}

function listTraffic(list: readonly Traffic[]): string {
  const byProtocol = Map.groupBy(list, ({ protocol }) => protocol);
  return [...byProtocol].map(([protocol, parts]) => `${nameOf(protocol)}${portsOf(parts)}`).join('; ');
}

function nameOf(protocol: number): string {
  if (protocol === OTHER_PROTOCOLS) return 'other protocols';
  return protocol === ICMP ? 'ICMP echo' : protocolName(protocol);
}

function portsOf(parts: readonly Traffic[]): string {
  if (parts.every(hasAllPorts)) return '';
  const texts = parts.map(({ first, last }) => (first === last ? String(first) : `${String(first)}-${String(last)}`));
  return ` ${texts.join(', ')}`;
}
