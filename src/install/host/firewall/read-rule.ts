import { ownValue } from '../../../base/own-value.ts';
import type { HostElement, HostExpression, HostRule } from '../../../dataplane/packet-tables.ts';
import { addressFromBytes, type Family } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import type { FilterRule } from './host-filter.ts';
import {
  addressOfDigits,
  addressTypeIn,
  comparedAddresses,
  comparedPorts,
  matchesOf,
  spansOf,
  statesIn,
} from './rule-values.ts';

/** A field of the packet in a register. */
interface Loaded {
  /** A field of the matches of `FilterRule`, or `nfproto`; undefined for what only special packets have. */
  readonly field?: string | undefined;
  readonly family?: Family;
  /** The bits that a comparison regards, in hexadecimal digits. */
  readonly mask?: string;
}

export interface RuleReader {
  readonly family: string;
  /** Returns the elements of a set, or of a map to verdicts; undefined for one that is not read. */
  readonly elementsOf: (set: string) => readonly HostElement[] | undefined;
  /** Reports whether the keys of the set have several fields: then it is about special packets. */
  readonly isConcatenated: (set: string) => boolean;
}

/** Fields by the keys of `meta` and `ct`. */
const FIELDS: Readonly<Record<string, string>> = {
  iifname: 'iifname',
  oifname: 'oifname',
  iif: 'iif',
  oif: 'oif',
  nfproto: 'nfproto',
  l4proto: 'protocol',
  state: 'state',
  status: 'status',
};
/** Fields by their offsets in the header, by family. */
const ADDRESSES: Readonly<Record<Family, Readonly<Record<number, string>>>> = {
  4: { 12: 'saddr', 16: 'daddr' },
  6: { 8: 'saddr', 24: 'daddr' },
};
const PROTOCOLS: Readonly<Record<Family, number>> = { 4: 9, 6: 6 };
const PORTS: Readonly<Record<number, string>> = { 0: 'sport', 2: 'dport' };
/** Fields whose sets are not read. */
const UNLISTED = ['nfproto', 'status', 'daddrtype'];
const NFT_LOOKUP_INVERTED = 1;
const [FIB_ADDRESS_TYPE, FIB_DESTINATION] = [3, 2];
const ADDRESS_BYTES: Readonly<Record<Family, number>> = { 4: 4, 6: 16 };
const TABLE_FAMILIES: Readonly<Record<string, Family>> = { ip: 4, ip6: 6 };
/** The kernel's numbers of families, in hexadecimal digits. */
const FAMILIES: Readonly<Record<string, Family>> = { '02': 4, '0a': 6 };
/** Targets of iptables after which the next rule follows. */
const HARMLESS_TARGETS: readonly unknown[] = 'CONNMARK CT LOG MARK NFLOG NOTRACK SET TCPMSS TRACE'.split(' ');

/** Returns what the rule does with packets; one rule for each interface of a map that decides. */
export function readRule({ expressions }: HostRule, reader: RuleReader): readonly FilterRule[] {
  const reading = new RuleReading(reader);
  for (const expression of expressions) reading.add(expression);
  const { matches, action, dispatched } = reading;
  return dispatched === undefined
    ? [{ matches, action }]
    : dispatched.map((rule) => ({ matches: [...matches, ...rule.matches], action: action ?? rule.action }));
}

class RuleReading {
  readonly matches: string[] = [];
  action: FilterRule['action'];
  dispatched: readonly FilterRule[] | undefined;
  readonly #reader: RuleReader;
  readonly #registers = new Map<number, Loaded>();
  #family: Family | undefined;

  constructor(reader: RuleReader) {
    this.#reader = reader;
    this.#family = ownValue(TABLE_FAMILIES, reader.family);
  }

  add(expression: HostExpression): void {
    const { kind, content, from, to } = expression;
    const loaded = this.#registers.get(Number(from)) ?? {};
    switch (content ?? kind) {
      case 'ct':
      case 'meta':
        return this.#load(to, { field: ownValue(FIELDS, String(expression['key'])) });
      case 'payload':
        return this.#load(to, this.#fieldIn(expression));
      case 'fib':
        return this.#load(to, isDestinationType(expression) ? { field: 'daddrtype' } : {});
      case 'bitwise':
        return this.#load(to, maskedBy(expression, loaded));
      case 'lookup':
        return this.#lookUp(expression, loaded);
      case 'cmp':
        return this.#compare(expression, loaded);
      case 'immediate':
        if (to !== 0) return this.#load(to, {});
        this.action ??= actionOf(String(expression['value']));
        return;
      case 'reject':
        this.action ??= 'drop';
        return;
      case 'target':
        if (expression['name'] === 'REJECT') this.action ??= 'drop';
        else if (!HARMLESS_TARGETS.includes(expression['name'])) this.#leave(`target ${String(expression['name'])}`);
        return;
      case 'match':
        this.matches.push(...matchesOf(expression));
        return;
      case 'range':
        return this.#compareRange(expression, loaded);
      case 'connlimit':
      case 'dynset':
      case 'limit':
      case 'quota':
        this.matches.push('?');
        return;
      case 'byteorder':
      case 'exthdr':
      case 'hash':
      case 'numgen':
      case 'osf':
      case 'rt':
      case 'socket':
      case 'tunnel':
      case 'xfrm':
        return this.#load(to, {});
      case 'counter':
      case 'dup':
      case 'flow_offload':
      case 'last':
      case 'log':
      case 'notrack':
      case 'objref':
        return;
      default:
        this.#leave(kind);
    }
  }

  /** An expression without a target writes to the packet. */
  #load(to: string | number | undefined, loaded: Loaded): void {
    if (to !== undefined) this.#registers.set(Number(to), loaded);
  }

  /** What follows is not known either. */
  #leave(what: string): void {
    this.action ??= `?${what}`;
  }

  #fieldIn({ base, offset, length }: HostExpression): Loaded {
    const [at, bytes] = [Number(offset), Number(length)];
    if (base === 'transport') return bytes === 2 ? { field: PORTS[at] } : {};
    const family = this.#family;
    if (family === undefined || base !== 'network' || bytes > ADDRESS_BYTES[family]) return {};
    if (at === PROTOCOLS[family] && bytes === 1) return { field: 'protocol' };
    return { field: ADDRESSES[family][at], family };
  }

  /** A map that decides by what is not read is a match of special packets, which it may accept. */
  #lookUp({ to, set, flags }: HostExpression, { field, mask }: Loaded): void {
    if (to !== undefined && to !== 0) return this.#load(to, {});
    const isSpecial = this.#reader.isConcatenated(String(set));
    const isRead = field !== undefined && !isSpecial && !UNLISTED.includes(field) && mask === undefined;
    const elements = isRead ? this.#reader.elementsOf(String(set)) : undefined;
    const spans = elements && field !== undefined ? spansOf(elements, field) : undefined;
    if (to === undefined) {
      const sign = (Number(flags ?? 0) & NFT_LOOKUP_INVERTED) === 0 ? '' : '!';
      if (spans !== undefined)
        this.matches.push([`${sign}${String(field)}`, ...spans.map(({ text }) => text)].join(' '));
      else this.matches.push(isRead ? `? set ${String(set)}` : '?');
    } else if (spans !== undefined) this.dispatched = spans.map((span) => ruleOf(span, String(field)));
    else if (isLinkOrAddress(field) && !isSpecial) this.#leave(`map ${String(set)}`);
    else this.dispatched = [{ matches: ['?'], action: 'accept' }];
  }

  #compare({ comparison, value }: HostExpression, loaded: Loaded): void {
    const text = comparedText({ comparison: String(comparison), value: String(value) }, loaded);
    if (text === 'family 4' || text === 'family 6') this.#family = text === 'family 4' ? 4 : 6;
    this.matches.push(text);
  }

  #compareRange({ comparison, first, last }: HostExpression, { field }: Loaded): void {
    const sign = comparison === '==' ? '' : '!';
    const isNumber = field === 'dport' || field === 'sport' || field === 'protocol';
    const bounds = [first, last].map((each) =>
      isNumber ? String(Number.parseInt(String(each), 16)) : addressOfDigits(field, String(each)),
    );
    this.matches.push(bounds.includes(undefined) ? '?' : `${sign}${String(field)} ${bounds.join('-')}`);
  }
}

function isDestinationType({ result, flags }: HostExpression): boolean {
  return result === FIB_ADDRESS_TYPE && flags === FIB_DESTINATION;
}

function isLinkOrAddress(field: string | undefined): boolean {
  return field !== undefined && ['iifname', 'oifname', 'saddr', 'daddr'].includes(field);
}

function maskedBy({ mask, xor }: HostExpression, loaded: Loaded): Loaded {
  return typeof mask === 'string' && /^0*$/.test(String(xor)) ? { ...loaded, mask } : {};
}

interface Comparison {
  readonly comparison: string;
  /** In hexadecimal digits. */
  readonly value: string;
}

/** Returns the match in the form of `FilterRule`. */
function comparedText({ comparison, value }: Comparison, { field, family, mask }: Loaded): string {
  if (field === 'state') return statesIn({ comparison, value, mask });
  // No packet has a status before an answer, or a translation.
  if (field === 'status') return /^0*$/.test(value) ? (comparison === '==' ? '!status any' : 'status any') : '?';
  if (field === 'daddrtype') return addressTypeIn(comparison, value);
  if (field === 'dport' || field === 'sport' || field === 'protocol')
    return mask === undefined ? comparedPorts(field, comparison, value) : '?';
  if (comparison !== '==' && comparison !== '!=')
    return mask === undefined ? comparedAddresses(field, comparison, value) : '?';
  const text = equalText(value, {
    field,
    ...(family === undefined ? {} : { family }),
    ...(mask === undefined ? {} : { mask }),
  });
  return text === '?' || comparison === '==' ? text : `!${text}`;
}

function equalText(value: string, { field, family, mask }: Loaded): string {
  const bytes = Buffer.from(value, 'hex');
  if (field === 'nfproto') return `family ${String(ownValue(FAMILIES, value) ?? '?')}`;
  if (field === 'iif' || field === 'oif') return bytes.length === 4 ? `${field} ${String(bytes.readUInt32LE())}` : '?';
  if (field === 'iifname' || field === 'oifname') {
    const end = bytes.indexOf(0);
    // Without its end, it is what the name begins with.
    return `${field} ${end === -1 ? `${bytes.toString()}*` : bytes.toString('utf8', 0, end)}`;
  }
  const bits = BigInt(`0x${mask ?? 'ff'.repeat(bytes.length)}`)
    .toString(2)
    .padStart(bytes.length * 8, '0');
  if (family === undefined || field === undefined || !/^1*0*$/.test(bits)) return '?';
  const address = Buffer.concat([bytes, Buffer.alloc(ADDRESS_BYTES[family])]).subarray(0, ADDRESS_BYTES[family]);
  return `${field} ${formatCidr({ base: addressFromBytes(address), prefixBits: bits.replaceAll('0', '').length })}`;
}

/** An element for everything else has the key `*`. */
function ruleOf({ text, verdict }: { readonly text: string; readonly verdict: string }, field: string): FilterRule {
  return { matches: text === '*' ? [] : [`${field} ${text}`], action: actionOf(verdict) };
}

function actionOf(verdict: string): FilterRule['action'] {
  const [kind = '', chain] = verdict.split(' ');
  if (kind === 'accept' || kind === 'drop' || kind === 'return') return kind;
  if (kind === 'continue' || kind === 'break') return undefined;
  if (chain === undefined) return `?${verdict}`;
  return kind === 'goto' ? `>>${chain}` : `>${chain}`;
}
