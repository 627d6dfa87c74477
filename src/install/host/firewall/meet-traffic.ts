import { type Address, tryParseAddress } from '../../../net/address.ts';
import type { AddressIndex } from '../../../net/address-index.ts';
import { type Cidr, cidrSize, tryReadCidr } from '../../../net/cidr.ts';
import type { NeededTraffic, TrafficKind } from './traffic.ts';

/** Whether packets match; a text says what is not known. */
export type Answer = boolean | string;

const SPECIAL = 'conditions that are not read';
/** States that packets of tunnels may have, too: of IP-in-IP, which has no ports, what this node sends makes what comes an answer. */
const TUNNEL_STATES: Readonly<Partial<Record<TrafficKind, readonly string[]>>> = {
  vxlan: ['untracked'],
  ipip: ['untracked', 'established'],
};

/** Answers whether the traffic has all the matches of a rule, in the form of `FilterRule`. */
export function meetsAll(matches: readonly string[], traffic: NeededTraffic): Answer {
  let doubt: string | undefined;
  // A state that is not read, and nothing else, is that of answers in nearly all firewalls.
  if (matches.length > 0 && matches.every((match) => match === 'state ?')) return traffic.isAnswer === true;
  for (const match of matches) {
    const answer = meets(match, traffic);
    if (answer === false) return false;
    if (answer !== true) doubt ??= answer;
  }
  return doubt ?? true;
}

function meets(match: string, traffic: NeededTraffic): Answer {
  const isNegated = match.startsWith('!');
  const [field = '', ...values] = match.slice(isNegated ? 1 : 0).split(' ');
  if (field === '?' && values.length > 0) return values.join(' ');
  const covered = coverageOf(field, values, traffic);
  if (covered === undefined)
    return isOfSpecial(field, traffic) ? false : field === 'state' ? 'states of connections' : SPECIAL;
  return covered === (isNegated ? 'none' : 'all');
}

/** What packets have not in common is a match of special packets; marks and translations say of those from outside that they are wanted. */
function isOfSpecial(field: string, { kind }: NeededTraffic): boolean {
  return kind === 'pods' || (kind === 'outside' && /^([io]if(name)?|[sd]addr|protocol|[sd]port)$/.test(field));
}

type Coverage = 'all' | 'some' | 'none';

/** Returns which packets of the traffic have one of the values; undefined where that is not known. */
function coverageOf(field: string, values: readonly string[], traffic: NeededTraffic): Coverage | undefined {
  switch (field) {
    case 'family':
      return allOrNone(values.includes(String(traffic.family)));
    case 'iifname':
    case 'oifname': {
      const name = traffic[field];
      return name === undefined ? undefined : namesIn(values, name);
    }
    case 'iif':
    case 'oif':
      // Loopback is the first link of every host.
      return traffic.hook !== 'forward' && values.every((index) => index === '1') ? 'none' : undefined;
    case 'saddr':
    case 'daddr': {
      const ranges = traffic[field];
      return ranges === undefined ? undefined : rangesIn(ranges, values);
    }
    case 'protocol':
    case 'dport': {
      const number = traffic[field];
      return number === undefined ? undefined : allOrNone(values.some((value) => isWithin(number, value)));
    }
    case 'state':
      return stateIn(values, traffic);
    case 'status':
      return traffic.kind === 'ipip' || traffic.kind === 'outside' ? undefined : 'none';
    case 'daddrtype':
      // Packets of pods are for other hosts, and what nodes receive is for them.
      return allOrNone(values.includes(traffic.hook === 'input' ? 'local' : 'unicast'));
    default:
      return undefined;
  }
}

function allOrNone(isMet: boolean): Coverage {
  return isMet ? 'all' : 'none';
}

/** The name may stand for all that begin so. */
function namesIn(patterns: readonly string[], name: string): Coverage {
  const isMet = (pattern: string): boolean =>
    pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name;
  if (patterns.some(isMet)) return 'all';
  const start = name.endsWith('*') ? name.slice(0, -1) : undefined;
  return start !== undefined && patterns.some((pattern) => pattern.startsWith(start)) ? 'some' : 'none';
}

function isWithin(number: number, value: string): boolean {
  const [first, last = first] = value.split('-').map(Number);
  return first !== undefined && last !== undefined && number >= first && number <= last;
}

/** The state of a connection that begins decides, or of its answers. */
function stateIn(values: readonly string[], { kind, isAnswer }: NeededTraffic): Coverage | undefined {
  const isMet = values.includes(isAnswer === true ? 'established' : 'new');
  const mayBeMet = TUNNEL_STATES[kind]?.some((state) => values.includes(state)) === true;
  return values.includes('?') || (mayBeMet && !isMet) ? undefined : allOrNone(isMet);
}

/** Returns the entries whose addresses are among those of a match of `saddr` or `daddr`. */
export function entriesIn<T>(match: string, index: AddressIndex<T>): readonly T[] {
  const [, ...values] = match.split(' ');
  const spans = values.map(readSpan).filter((span) => span !== undefined);
  return spans.flatMap(({ first, last }) => [...index.between(first, last)]);
}

function rangesIn(ranges: readonly Cidr[], values: readonly string[]): Coverage | undefined {
  const spans = values.map(readSpan);
  if (spans.includes(undefined)) return undefined;
  const known = spans.filter((span) => span !== undefined);
  const own = ranges.map(spanOf);
  if (own.length > 0 && own.every((range) => known.some((span) => contains(span, range)))) return 'all';
  return own.length > 0 && !own.some((range) => known.some((span) => overlaps(span, range))) ? 'none' : 'some';
}

interface Span {
  readonly first: Address;
  readonly last: Address;
}

/** Reads an address, a network or a range of addresses. */
function readSpan(text: string): Span | undefined {
  const [from = '', to] = text.split('-');
  if (to === undefined) {
    const cidr = tryReadCidr(text)?.cidr;
    if (cidr !== undefined) return spanOf(cidr);
  }
  const [first, last] = [tryParseAddress(from), tryParseAddress(to ?? from)];
  return first === undefined || last === undefined ? undefined : { first, last };
}

function spanOf(cidr: Cidr): Span {
  return { first: cidr.base, last: { family: cidr.base.family, value: cidr.base.value + cidrSize(cidr) - 1n } };
}

function contains(outer: Span, inner: Span): boolean {
  const { first, last } = outer;
  return first.family === inner.first.family && first.value <= inner.first.value && inner.last.value <= last.value;
}

function overlaps(a: Span, b: Span): boolean {
  return a.first.family === b.first.family && a.first.value <= b.last.value && b.first.value <= a.last.value;
}
