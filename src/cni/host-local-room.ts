import { ownValue } from '../base/own-value.ts';
import { type Address, formatAddress, tryParseAddress } from '../net/address.ts';
import { cidrSize, tryReadCidr } from '../net/cidr.ts';
import { isJsonObject } from './result.ts';

interface Range {
  readonly first: Address;
  readonly last: Address;
  /** Never assigned, also where netplug ignores it. */
  readonly gateway: Address | undefined;
}

/**
 * Returns the first set of ranges without a free address, such as "10.90.0.1-10.90.0.6"; undefined when host-local can assign an
 * address of each. `conf` is what host-local receives, `taken` what it holds. A set that cannot be decoded counts as free: host-local
 * says what is wrong with it. Source: host-local 1.9.1, backend/allocator.
 */
export function findFullSet(conf: Readonly<Record<string, unknown>>, taken: readonly Address[]): string | undefined {
  for (const set of rangeSets(conf)) {
    const ranges = set.map(readRange);
    const known = ranges.filter((range) => range !== undefined);
    if (known.length === 0 || known.length < ranges.length) continue;
    if (known.every((range) => isFull(range, taken))) return known.map(nameOf).join(',');
  }
  return undefined;
}

/** The range in short is a set of its own, and the runtime may pass more. */
function rangeSets({ ipam, runtimeConfig }: Readonly<Record<string, unknown>>): readonly (readonly unknown[])[] {
  const { subnet, ranges } = isJsonObject(ipam) ? ipam : {};
  const passed = isJsonObject(runtimeConfig) ? runtimeConfig['ipRanges'] : undefined;
  const sets: readonly unknown[] = [passed, ranges].flatMap((list: unknown) => (Array.isArray(list) ? list : []));
  return [...(subnet === undefined ? [] : [[ipam]]), ...sets.filter((set) => Array.isArray(set))];
}

/** By default a range begins behind the address of the network, where the gateway is, and an IPv4 range ends before the broadcast. */
function readRange(range: unknown): Range | undefined {
  if (!isJsonObject(range)) return undefined;
  const textOf = (key: string): string | undefined => {
    const value = ownValue(range, key);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const reading = tryReadCidr(textOf('subnet') ?? '');
  if (reading === undefined || reading.hostBits) return undefined;
  const { base } = reading.cidr;
  const { family } = base;
  const second = { family, value: base.value + 1n };
  const end = { family, value: base.value + cidrSize(reading.cidr) - (family === 4 ? 2n : 1n) };
  const addressOf = (key: string, byDefault: Address): Address | undefined => {
    const text = textOf(key);
    return text === undefined ? byDefault : tryParseAddress(text);
  };
  const first = addressOf('rangeStart', second);
  const last = addressOf('rangeEnd', end);
  if (first === undefined || last === undefined) return undefined;
  return { first, last, gateway: addressOf('gateway', second) };
}

function isFull(range: Range, taken: readonly Address[]): boolean {
  const { first, last, gateway } = range;
  const isIn = ({ family, value }: Address): boolean =>
    family === first.family && value >= first.value && value <= last.value;
  const unassignable = new Set([...taken, ...(gateway === undefined ? [] : [gateway])].filter(isIn).map(formatAddress));
  return BigInt(unassignable.size) >= last.value - first.value + 1n;
}

function nameOf({ first, last }: Range): string {
  return `${formatAddress(first)}-${formatAddress(last)}`;
}
