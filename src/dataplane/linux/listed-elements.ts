/** Elements of sets of nftables as the kernel lists them. Pure; other work of the process can run while a large set is decoded. */
import { slices } from '../../base/slices.ts';
import { type Address, addressFromBytes, bitsOf, type Family, formatAddress } from '../../net/address.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { FilterSet } from '../policy-filter.ts';
import { type Attributes, attributeText, attributesIn, decodeAttributes } from './netlink.ts';
import { type ElementInterval, keyIn, NFT_GOTO } from './nft-elements.ts';
import { be32Of, listedElements } from './nft-messages.ts';
import { NFT_SET_ELEM_INTERVAL_END, NFTA_DATA, NFTA_SET_ELEM, NFTA_VERDICT } from './nft-numbers.ts';
import { decodeKey, keyType } from './nft-types.ts';

/** Bodies of a listing, of some hundred elements each, that are decoded before other work may run. */
const BODIES_AT_ONCE = 4;
const RANGES_AT_ONCE = 2000;

/** Decodes the listing of a set of that kind into texts; those of a map have a chain or an address. */
export async function decodeElements(set: FilterSet, bodies: readonly Buffer[]): Promise<ReadonlyMap<string, string>> {
  const elements = new Map<string, string>();
  const ends: RangeEnd[] = [];
  for await (const some of slices(bodies, BODIES_AT_ONCE))
    for (const body of some)
      for (const attributes of listedElements(body)) {
        const key = keyIn(attributes);
        if (set.kind === 'nets') ends.push(rangeEnd(key, attributes));
        else elements.set(decodeKey(keyType(set), key), valueIn(attributes));
      }
  if (set.kind !== 'nets') return elements;
  for await (const range of slices(rangesIn(ends, set.family), RANGES_AT_ONCE))
    for (const each of range) elements.set(rangeText(set.family, each), '');
  return elements;
}

/** Where a range begins, or after which it ends. */
interface RangeEnd {
  readonly value: bigint;
  readonly isEnd: boolean;
}

function rangeEnd(key: Buffer, attributes: Attributes): RangeEnd {
  const { value } = addressFromBytes(key);
  return { value, isEnd: (be32Of(attributes.get(NFTA_SET_ELEM.FLAGS)) & NFT_SET_ELEM_INTERVAL_END) !== 0 };
}

/** Returns the chain that the element goes to, or its address; another verdict as text that no desired element has. */
function valueIn(attributes: Attributes): string {
  const data = attributesIn(attributes, NFTA_SET_ELEM.DATA);
  const [verdict, value] = [data.get(NFTA_DATA.VERDICT), data.get(NFTA_DATA.VALUE)];
  if (verdict === undefined) return value === undefined ? '' : formatAddress(addressFromBytes(value));
  const parts = decodeAttributes(verdict);
  const code = be32Of(parts.get(NFTA_VERDICT.CODE)) | 0;
  const chain = parts.get(NFTA_VERDICT.CHAIN);
  return code === NFT_GOTO && chain !== undefined ? attributeText(chain) : `verdict ${String(code)}`;
}

/** The kernel lists them in their order, or in the opposite one, so sorting takes one comparison for each. */
function rangesIn(listed: readonly RangeEnd[], family: Family): readonly ElementInterval[] {
  // The end of one range may be the start of the next.
  const ends = listed.toSorted((a, b) =>
    a.value === b.value ? Number(b.isEnd) - Number(a.isEnd) : a.value < b.value ? -1 : 1,
  );
  const greatest = (1n << BigInt(bitsOf(family))) - 1n;
  const ranges: ElementInterval[] = [];
  for (const [index, { value, isEnd }] of ends.entries()) {
    if (isEnd) continue;
    const next = ends[index + 1];
    ranges.push({ first: value, last: next === undefined ? greatest : next.value - 1n });
  }
  return ranges;
}

/** Returns the range as CIDR, or as two addresses when it is none. */
function rangeText(family: Family, { first, last }: ElementInterval): string {
  const size = last - first + 1n;
  const hostBits = size.toString(2).length - 1;
  const base: Address = { family, value: first };
  const isCidr = 1n << BigInt(hostBits) === size && first % size === 0n;
  if (isCidr) return formatCidr({ base, prefixBits: bitsOf(family) - hostBits });
  return `${formatAddress(base)}-${formatAddress({ family, value: last })}`;
}
