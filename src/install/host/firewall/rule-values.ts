import type { HostElement, HostExpression } from '../../../dataplane/packet-tables.ts';
import { type Address, addressFromBytes, bitsOf, formatAddress, tryParseAddress } from '../../../net/address.ts';

/** The bits by which the kernel tells states of connections. */
const STATES: readonly (readonly [bit: number, name: string])[] = [
  [0x01, 'invalid'],
  [0x02, 'established'],
  [0x04, 'related'],
  [0x08, 'new'],
  [0x40, 'untracked'],
];
/** The bits of iptables: the same, except for the last one. Translation has bits that no new packet has. */
const XT_STATES: typeof STATES = [...STATES.slice(0, 4), [0x100, 'untracked'], [0xc0, 'translated']];
/** Types of addresses, as the kernel numbers them. */
const ADDRESS_TYPES = ['unspecified', 'unicast', 'local', 'broadcast', 'anycast', 'multicast'];
const XT = { state: 0x1, status: 0x40, invertedDestination: 0x2 } as const;
const MOST = 65_535;

/** Returns the match of a comparison of states, whose bytes are in the order of this machine. */
export function statesIn({
  comparison,
  value,
  mask,
}: {
  readonly comparison: string;
  readonly value: string;
  readonly mask: string | undefined;
}): string {
  const isZero = /^0*$/.test(value);
  const names = namesOf(mask !== undefined && isZero ? mask : value);
  const isEqual = comparison === '==';
  if (names === undefined || (!isEqual && comparison !== '!=') || (mask !== undefined && !isZero)) return '?';
  // Of a mask, what is not zero has one of the bits.
  const isNegated = mask === undefined ? !isEqual : isEqual;
  return `${isNegated ? '!' : ''}state ${names}`;
}

/** Returns the matches of a match of iptables, as far as its fields are decoded. */
export function matchesOf({ name, ...fields }: HostExpression): readonly string[] {
  const [flags, inverted, states] = [Number(fields['flags']), Number(fields['inverted']), Number(fields['states'])];
  switch (String(name)) {
    case 'comment':
      return [];
    case 'set':
      return ['? a set of ipset'];
    case 'conntrack':
    case 'state':
      if (flags === XT.status) return ['status any'];
      if (flags !== XT.state) return [Number.isNaN(flags) ? 'state ?' : '?'];
      return [`${inverted === 0 ? '' : '!'}state ${bitNames(states, XT_STATES)}`];
    case 'addrtype': {
      const types = Number(fields['destinationTypes']);
      if (fields['sourceTypes'] !== 0 || (flags & ~XT.invertedDestination) !== 0) return ['?'];
      const names = ADDRESS_TYPES.filter((_, number) => (types & (1 << number)) !== 0);
      return [`${flags === 0 ? '' : '!'}daddrtype ${names.join(' ')}`];
    }
    default:
      return ['?'];
  }
}

/** Returns the match of a comparison of the type of the destination; its number is in the order of this machine. */
export function addressTypeIn(comparison: string, value: string): string {
  const bytes = Buffer.from(value, 'hex');
  const name = bytes.length === 4 ? ADDRESS_TYPES[bytes.readUInt32LE()] : undefined;
  if (name === undefined || (comparison !== '==' && comparison !== '!=')) return '?';
  return `${comparison === '==' ? '' : '!'}daddrtype ${name}`;
}

function namesOf(digits: string): string | undefined {
  const bytes = Buffer.from(digits, 'hex');
  if (bytes.length !== 4) return undefined;
  return bitNames(bytes.readUInt32LE(), STATES);
}

function bitNames(bits: number, names: typeof STATES): string {
  return names.flatMap(([bit, name]) => ((bits & bit) === 0 ? [] : [name])).join(' ');
}

/** Returns the match of a comparison of a number in network byte order. */
export function comparedPorts(field: string, comparison: string, value: string): string {
  const number = Number.parseInt(value, 16);
  switch (comparison) {
    case '==':
      return `${field} ${String(number)}`;
    case '!=':
      return `!${field} ${String(number)}`;
    case '<':
      return `${field} 0-${String(number - 1)}`;
    case '<=':
      return `${field} 0-${String(number)}`;
    case '>':
      return `${field} ${String(number + 1)}-${String(MOST)}`;
    case '>=':
      return `${field} ${String(number)}-${String(MOST)}`;
    default:
      return '?';
  }
}

/** Returns the text of a whole address in hexadecimal digits; undefined for what is none. */
export function addressOfDigits(field: string | undefined, digits: string): string | undefined {
  const isAddress = (field === 'saddr' || field === 'daddr') && (digits.length === 8 || digits.length === 32);
  return isAddress ? formatAddress(addressFromBytes(Buffer.from(digits, 'hex'))) : undefined;
}

/** Returns the match of a comparison with a bound of a range, which it includes. */
export function comparedAddresses(field: string | undefined, comparison: string, value: string): string {
  const bound = addressOfDigits(field, value);
  if (bound === undefined || (comparison !== '>=' && comparison !== '<=')) return '?';
  const end = addressOfDigits(field, (comparison === '>=' ? 'f' : '0').repeat(value.length));
  return `${String(field)} ${comparison === '>=' ? `${bound}-${String(end)}` : `${String(end)}-${bound}`}`;
}

export interface ElementSpan {
  /** A value of the matches of `FilterRule`, also `first-last`; `*` is everything else. */
  readonly text: string;
  readonly verdict: string;
}

/** Returns the elements of a set for the field; undefined where they are not read. Ranges of interfaces are beginnings of names. */
export function spansOf(elements: readonly HostElement[], field: string): readonly ElementSpan[] | undefined {
  if (elements.some(({ last }) => last !== undefined)) return undefined;
  if (!elements.some(({ isEnd }) => isEnd === true))
    return elements.map(({ key, value = '' }) => ({ text: textOf(key, field), verdict: value }));
  return pairsOf(elements, field);
}

function textOf(key: string, field: string): string {
  if (key === '*') return key;
  if (field === 'state') return namesOf(key) ?? '?';
  return field === 'saddr' || field === 'daddr' ? `${key}/${key.includes(':') ? '128' : '32'}` : key;
}

/** A range ends before the element that ends it. */
function pairsOf(elements: readonly HostElement[], field: string): readonly ElementSpan[] | undefined {
  const bounds = elements
    .filter(({ key }) => key !== '*')
    .map((element) => ({ element, at: pointOf(element.key, field) }));
  const points = bounds.flatMap(({ element, at }) => (at === undefined ? [] : [{ element, at }]));
  if (points.length < bounds.length) return undefined;
  points.sort((a, b) =>
    a.at.value === b.at.value
      ? Number(b.element.isEnd ?? 0) - Number(a.element.isEnd ?? 0)
      : a.at.value < b.at.value
        ? -1
        : 1,
  );
  const rest = elements.filter(({ key }) => key === '*').map(({ value = '' }) => ({ text: '*', verdict: value }));
  const ranges = points.flatMap(({ element, at }, index): ElementSpan[] => {
    if (element.isEnd === true) return [];
    const end = points[index + 1];
    const last = end === undefined ? at.last : end.at.value - 1n;
    return [{ text: `${at.format(at.value)}-${at.format(last)}`, verdict: element.value ?? '' }];
  });
  return [...ranges, ...rest];
}

interface Point {
  readonly value: bigint;
  /** The greatest value of the field. */
  readonly last: bigint;
  readonly format: (value: bigint) => string;
}

function pointOf(key: string, field: string): Point | undefined {
  if (field === 'dport' || field === 'sport' || field === 'protocol')
    return /^\d+$/.test(key) ? { value: BigInt(key), last: BigInt(MOST), format: String } : undefined;
  const address: Address | undefined = field === 'saddr' || field === 'daddr' ? tryParseAddress(key) : undefined;
  if (address === undefined) return undefined;
  const { family, value } = address;
  const last = (1n << BigInt(bitsOf(family))) - 1n;
  return { value, last, format: (each) => formatAddress({ family, value: each }) };
}
