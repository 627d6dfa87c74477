import { NetplugError } from '../base/errors.ts';
import { type Address, bitsOf, type Family, formatAddress, tryParseAddress } from './address.ts';

/** A block of addresses: its lowest address (host bits clear) and how many leading bits are fixed. */
export interface Cidr {
  readonly base: Address;
  readonly prefixBits: number;
}

/** A parsed CIDR; `hostBits` is true when bits right of the prefix are set. */
export interface CidrReading {
  readonly cidr: Cidr;
  readonly address: Address;
  readonly hostBits: boolean;
}

/** By their only text. */
const PREFIX_BITS: ReadonlyMap<string, number> = new Map(
  Array.from({ length: 129 }, (_, bits) => [String(bits), bits] as const),
);

/** Parses `address/bits`; undefined for anything else. */
export function tryReadCidr(text: string): CidrReading | undefined {
  const slash = text.indexOf('/');
  const prefixBits = slash === -1 ? undefined : PREFIX_BITS.get(text.slice(slash + 1));
  const address = prefixBits === undefined ? undefined : tryParseAddress(text.slice(0, slash));
  if (prefixBits === undefined || address === undefined || prefixBits > bitsOf(address.family)) return undefined;
  const cidr = cidrAround(address, prefixBits);
  return { cidr, address, hostBits: cidr.base.value !== address.value };
}

/** Parses a CIDR. @throws ipam/request-invalid when the text is not a CIDR or has host bits set */
export function parseCidr(text: string): Cidr {
  const reading = tryReadCidr(text);
  if (reading === undefined || reading.hostBits) {
    const should = reading === undefined ? 'address/prefix' : `"${formatCidr(reading.cidr)}"`;
    throw new NetplugError('ipam/request-invalid', `Cannot read "${text}" as a CIDR`, { hint: `Write ${should}` });
  }
  return reading.cidr;
}

export function formatCidr({ base, prefixBits }: Cidr): string {
  return `${formatAddress(base)}/${String(prefixBits)}`;
}

/** Returns the CIDR of that size that contains the address. */
export function cidrAround(address: Address, prefixBits: number): Cidr {
  const shift = BigInt(bitsOf(address.family) - prefixBits);
  return { base: { family: address.family, value: (address.value >> shift) << shift }, prefixBits };
}

/** Returns the number of addresses of the CIDR. */
export function cidrSize({ base, prefixBits }: Cidr): bigint {
  return 1n << BigInt(bitsOf(base.family) - prefixBits);
}

/** Rules are matched against addresses by the thousand: nothing is made for one. */
export function cidrContains(outer: Cidr, inner: Address | Cidr): boolean {
  if ('base' in inner) return inner.prefixBits >= outer.prefixBits && cidrContains(outer, inner.base);
  const { family, value } = outer.base;
  return family === inner.family && (inner.value ^ value) >> hostBitsOf(family, outer.prefixBits) === 0n;
}

const NUMBERS: readonly bigint[] = Array.from({ length: 129 }, (_, number) => BigInt(number));

function hostBitsOf(family: Family, prefixBits: number): bigint {
  return NUMBERS[bitsOf(family) - prefixBits] ?? 0n;
}

export function cidrsOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, b) || cidrContains(b, a);
}

/** Reports whether two ranges, each a CIDR or an address, have an address in common; false when one cannot be read. */
export function rangesOverlap(a: string, b: string): boolean {
  const [one, other] = [tryReadRange(a), tryReadRange(b)];
  return one !== undefined && other !== undefined && cidrsOverlap(one, other);
}

/** Parses a CIDR, also one with host bits, or an address, as the range of that one address. */
export function tryReadRange(text: string): Cidr | undefined {
  const address = tryParseAddress(text);
  return address === undefined ? tryReadCidr(text)?.cidr : hostCidr(address);
}

export function sameCidr(a: Cidr, b: Cidr): boolean {
  return a.prefixBits === b.prefixBits && a.base.family === b.base.family && a.base.value === b.base.value;
}

/** Returns the CIDR of the single address: /32 or /128. */
export function hostCidr(address: Address): Cidr {
  return { base: address, prefixBits: bitsOf(address.family) };
}

/** Returns the `ordinal`-th address, from 0. */
export function addressAt({ base }: Cidr, ordinal: number): Address {
  return { family: base.family, value: base.value + BigInt(ordinal) };
}

/** Returns the position of the address in the CIDR, from 0. */
export function ordinalOf({ base }: Cidr, address: Address): number {
  return Number(address.value - base.value);
}

/** Orders by family, address, then size, largest first. */
export function compareCidrs(a: Cidr, b: Cidr): number {
  if (a.base.family !== b.base.family) return a.base.family - b.base.family;
  if (a.base.value !== b.base.value) return a.base.value < b.base.value ? -1 : 1;
  return a.prefixBits - b.prefixBits;
}

/** Returns the CIDRs that are in no other one, each once, in order. CIDRs nest or are apart, so what is left has no overlap. */
export function outermostCidrs(cidrs: readonly Cidr[]): readonly Cidr[] {
  const kept: Cidr[] = [];
  for (const cidr of cidrs.toSorted(compareCidrs)) {
    const last = kept.at(-1);
    if (last === undefined || !cidrContains(last, cidr)) kept.push(cidr);
  }
  return kept;
}
