import { type Address, bitsOf, FAMILIES, type Family, formatAddress } from '../../net/address.ts';
import { type Cidr, compareCidrs, formatCidr } from '../../net/cidr.ts';

/** Addresses that are in the same CIDRs of a list, and one of them. */
export interface OutsideRegion {
  /** The smallest CIDR of the list around it; undefined for addresses that are in none. */
  readonly net: Cidr | undefined;
  readonly family: Family;
  readonly address: Address;
}

interface Span {
  readonly net: Cidr | undefined;
  readonly first: bigint;
  readonly last: bigint;
  readonly inner: Span[];
}

/**
 * Divides all addresses by a list of CIDRs, and returns an address of each part that is not taken. Parts without such an
 * address are left out.
 */
export function outsideRegions(
  nets: readonly Cidr[],
  isTaken: (address: Address) => boolean,
): readonly OutsideRegion[] {
  return FAMILIES.flatMap((family) => regionsOf(family, nets, isTaken));
}

function regionsOf(
  family: Family,
  nets: readonly Cidr[],
  isTaken: (address: Address) => boolean,
): readonly OutsideRegion[] {
  const whole: Span = { net: undefined, first: 0n, last: (1n << BigInt(bitsOf(family))) - 1n, inner: [] };
  const spans = [whole];
  const around = [whole];
  const distinct = new Map(nets.filter(({ base }) => base.family === family).map((net) => [formatCidr(net), net]));
  for (const net of [...distinct.values()].toSorted(compareCidrs)) {
    const { base, prefixBits } = net;
    const last = base.value + (1n << BigInt(bitsOf(family) - prefixBits)) - 1n;
    const span: Span = { net, first: base.value, last, inner: [] };
    while ((around.at(-1) ?? whole) !== whole && (around.at(-1) ?? whole).last < span.last) around.pop();
    (around.at(-1) ?? whole).inner.push(span);
    around.push(span);
    spans.push(span);
  }
  return spans.flatMap((span) => {
    const value = freeValue(span, family, isTaken);
    return value === undefined ? [] : [{ net: span.net, family, address: { family, value } }];
  });
}

function freeValue(
  { first, last, inner }: Span,
  family: Family,
  isTaken: (address: Address) => boolean,
): bigint | undefined {
  let value = first;
  let at = 0;
  while (value <= last) {
    const child = inner[at];
    if (child !== undefined && value >= child.first) {
      value = child.last + 1n > value ? child.last + 1n : value;
      at += 1;
    } else if (isTaken({ family, value })) value += 1n;
    else return value;
  }
  return undefined;
}

export function describeRegion({ net, family, address }: OutsideRegion): string {
  if (net === undefined) return `other IPv${String(family)} addresses`;
  return net.prefixBits === bitsOf(family) ? formatAddress(address) : formatCidr(net);
}
