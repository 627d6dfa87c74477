import { ownValue } from '../../../base/own-value.ts';
import type { HostElement, HostExpression, HostRule } from '../../../dataplane/packet-tables.ts';
import { addressFromBytes, type Family } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import type { FilterRule } from './host-filter.ts';

/** A field of the packet in a register. */
interface Loaded {
  /** `iifname`, `oifname`, `nfproto`, `saddr` or `daddr`; undefined for what the packets of pods have not in common. */
  readonly field?: string | undefined;
  readonly family?: Family;
  /** The bits that a comparison regards, in hexadecimal digits. */
  readonly mask?: string;
}

export interface RuleReader {
  readonly family: string;
  /** Returns the elements of a map from interfaces to verdicts; undefined for a map that is not read. */
  readonly elementsOf: (map: string) => readonly HostElement[] | undefined;
}

const FIELDS: readonly unknown[] = ['iifname', 'oifname', 'nfproto'];
/** Offsets of addresses in the header, by family. */
const ADDRESSES: Readonly<Record<Family, Readonly<Record<number, string>>>> = {
  4: { 12: 'saddr', 16: 'daddr' },
  6: { 8: 'saddr', 24: 'daddr' },
};
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
      case 'meta':
        return this.#load(to, FIELDS.includes(expression['key']) ? { field: String(expression['key']) } : {});
      case 'payload':
        return this.#load(to, this.#addressIn(expression));
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
        if (expression['name'] !== 'comment') this.matches.push('?');
        return;
      case 'connlimit':
      case 'dynset':
      case 'limit':
      case 'quota':
      case 'range':
        this.matches.push('?');
        return;
      case 'byteorder':
      case 'ct':
      case 'exthdr':
      case 'fib':
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

  #addressIn({ base, offset, length }: HostExpression): Loaded {
    const family = this.#family;
    if (family === undefined || base !== 'network' || Number(length) > ADDRESS_BYTES[family]) return {};
    return { field: ADDRESSES[family][Number(offset)], family };
  }

  /** A map that decides by what the packets of pods have not in common is a match of special packets. */
  #lookUp({ to, set }: HostExpression, { field }: Loaded): void {
    const isDeciding = to === 0;
    if (to !== undefined && !isDeciding) this.#load(to, {});
    else if (!isDeciding || field === undefined) this.matches.push('?');
    else {
      const elements = field.endsWith('ifname') ? this.#reader.elementsOf(String(set)) : undefined;
      if (elements === undefined) this.#leave(`map ${String(set)}`);
      else this.dispatched = elements.map((element) => ruleOf(element, field));
    }
  }

  #compare({ comparison, value }: HostExpression, loaded: Loaded): void {
    const text = comparison === '==' ? comparedText(String(value), loaded) : '?';
    if (text.startsWith('family ')) this.#family = text === 'family 4' ? 4 : 6;
    this.matches.push(text);
  }
}

function maskedBy({ mask, xor }: HostExpression, loaded: Loaded): Loaded {
  return typeof mask === 'string' && /^0*$/.test(String(xor)) ? { ...loaded, mask } : {};
}

/** Returns the match in the form of `FilterRule`. */
function comparedText(value: string, { field, family, mask }: Loaded): string {
  const bytes = Buffer.from(value, 'hex');
  if (field === 'nfproto') return `family ${String(ownValue(FAMILIES, value) ?? '?')}`;
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
function ruleOf({ key, value }: HostElement, field: string): FilterRule {
  return { matches: key === '*' ? [] : [`${field} ${key}`], action: actionOf(value ?? '') };
}

function actionOf(verdict: string): FilterRule['action'] {
  const [kind = '', chain] = verdict.split(' ');
  if (kind === 'accept' || kind === 'drop' || kind === 'return') return kind;
  if (kind === 'continue' || kind === 'break') return undefined;
  return chain === undefined ? `?${verdict}` : `>${chain}`;
}
