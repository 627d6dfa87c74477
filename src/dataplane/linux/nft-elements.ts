/** Elements of nftables sets as bytes, and back to their canonical texts. Pure. */
import {
  type Address,
  type Family,
  addressBytes,
  addressFromBytes,
  bitsOf,
  formatAddress,
  parseAddress,
} from '../../net/address.ts';
import { type Cidr, formatCidr, parseCidr } from '../../net/cidr.ts';
import type { FilterSet } from '../policy-filter.ts';
import { type Attributes, attribute, attributeText, attributesIn, decodeAttributes, nested } from './netlink.ts';
import { be32Attribute, be32Of, be64Attribute, be64Of } from './nft-messages.ts';
import { NFTA_DATA, NFTA_LIST_ELEM, NFTA_SET_ELEM, NFTA_VERDICT, NFT_SET_ELEM_INTERVAL_END } from './nft-numbers.ts';
import { verdictData } from './nft-steps.ts';
import { addressType, decodeKey, encodeKey, keyType } from './nft-types.ts';

const NFT_GOTO = -4;
/** The length of an attribute, which contains the elements of one message, has 16 bits. */
const LIST_BYTES = 60_000;

/** Inclusive. */
export interface ElementInterval {
  readonly first: bigint;
  readonly last: bigint;
}

export function intervalOf({ base, prefixBits }: Cidr): ElementInterval {
  const size = 1n << BigInt(bitsOf(base.family) - prefixBits);
  return { first: base.value, last: base.value + size - 1n };
}

export function prefixMask(family: Family, prefixBits: number): Buffer {
  const bits = bitsOf(family);
  const value = ((1n << BigInt(prefixBits)) - 1n) << BigInt(bits - prefixBits);
  return Buffer.from(addressBytes({ family, value }));
}

/** Encodes elements without ranges, in pieces that fit into one message each. */
export function pointElements(keys: readonly Buffer[]): readonly Buffer[] {
  return inPieces(keys.map((key) => element(key)));
}

/** Encodes disjoint ranges, in pieces that fit into one message each. */
export function intervalElements(ranges: readonly ElementInterval[], keyBytes: number): readonly Buffer[] {
  return inPieces(ranges.map((range) => Buffer.concat(rangeElements(range, keyBytes))));
}

/** A range is two elements: its first key, and the key after its last one unless that is the greatest key. */
function rangeElements({ first, last }: ElementInterval, keyBytes: number): readonly Buffer[] {
  const end = last + 1n;
  const start = element(keyBuffer(first, keyBytes));
  if (end >> BigInt(keyBytes * 8) !== 0n) return [start];
  return [start, element(keyBuffer(end, keyBytes), [be32Attribute(NFTA_SET_ELEM.FLAGS, NFT_SET_ELEM_INTERVAL_END)])];
}

function keyBuffer(value: bigint, bytes: number): Buffer {
  return Buffer.from(value.toString(16).padStart(bytes * 2, '0'), 'hex');
}

function element(key: Buffer, more: readonly Buffer[] = []): Buffer {
  return nested(NFTA_LIST_ELEM, [nested(NFTA_SET_ELEM.KEY, [attribute(NFTA_DATA.VALUE, key)]), ...more]);
}

/** Encodes elements of a set in pieces that fit into one message each. Deleting needs the keys only. */
export function elementLists(set: FilterSet, elements: Iterable<string>): readonly Buffer[] {
  return inPieces(Array.from(elements, (text) => encodeElement(set, text)));
}

/** Encodes elements that expire after so many ms, in pieces that fit into one message each. */
export function expiringLists(set: FilterSet, elements: ReadonlyMap<string, number>): readonly Buffer[] {
  return inPieces(
    Array.from(elements, ([text, timeoutMs]) => {
      const timeout = be64Attribute(NFTA_SET_ELEM.TIMEOUT, BigInt(Math.ceil(timeoutMs)));
      return element(encodeKey(keyType(set), text), [timeout]);
    }),
  );
}

/** Decodes the listing of a set whose elements expire into texts and the times that they have left, in ms. */
export function decodeExpiring(set: FilterSet, listed: readonly Attributes[]): ReadonlyMap<string, number> {
  return new Map(
    listed.map((attributes) => [
      decodeKey(keyType(set), keyIn(attributes)),
      Number(be64Of(attributes.get(NFTA_SET_ELEM.EXPIRATION))),
    ]),
  );
}

function inPieces(encoded: readonly Buffer[]): readonly Buffer[] {
  const pieces: Buffer[] = [];
  let pending: Buffer[] = [];
  let bytes = 0;
  for (const one of encoded) {
    if (bytes + one.length > LIST_BYTES) {
      pieces.push(Buffer.concat(pending));
      [pending, bytes] = [[], 0];
    }
    pending.push(one);
    bytes += one.length;
  }
  return pending.length === 0 ? pieces : [...pieces, Buffer.concat(pending)];
}

function encodeElement(set: FilterSet, text: string): Buffer {
  if (set.kind === 'nets') return Buffer.concat(rangeElements(rangeFrom(text), bitsOf(set.family) / 8));
  return element(encodeKey(keyType(set), text), dataOfElement(set, text));
}

/** Returns what the map has for the key; nothing for a set, or for a key alone. */
function dataOfElement(set: FilterSet, text: string): readonly Buffer[] {
  if (set.kind !== 'interfaces' && set.kind !== 'translations') return [];
  const value = set.elements.get(text);
  if (value === undefined) return [];
  const data =
    set.kind === 'interfaces'
      ? verdictData(NFT_GOTO, value)
      : attribute(NFTA_DATA.VALUE, encodeKey(addressType(set.family), value));
  return [nested(NFTA_SET_ELEM.DATA, [data])];
}

function rangeFrom(text: string): ElementInterval {
  const [first, last] = text.split('-').map((end) => (end.includes('/') ? undefined : parseAddress(end).value));
  return first === undefined || last === undefined ? intervalOf(parseCidr(text)) : { first, last };
}

/** Decodes the listing of a set of that kind into texts; those of a map have a chain or an address. */
export function decodeElements(set: FilterSet, listed: readonly Attributes[]): ReadonlyMap<string, string> {
  const keys = listed.map((attributes) => ({ key: keyIn(attributes), attributes }));
  if (set.kind === 'nets') return new Map(rangesIn(keys, set.family).map((text) => [text, '']));
  return new Map(keys.map(({ key, attributes }) => [decodeKey(keyType(set), key), valueIn(attributes)]));
}

function keyIn(attributes: Attributes): Buffer {
  return attributesIn(attributes, NFTA_SET_ELEM.KEY).get(NFTA_DATA.VALUE) ?? Buffer.alloc(0);
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

function rangesIn(
  keys: readonly { readonly key: Buffer; readonly attributes: Attributes }[],
  family: Family,
): string[] {
  const ends = keys
    .map(({ key, attributes }) => ({
      value: BigInt(`0x${key.toString('hex')}`),
      isEnd: (be32Of(attributes.get(NFTA_SET_ELEM.FLAGS)) & NFT_SET_ELEM_INTERVAL_END) !== 0,
    }))
    // The end of one range may be the start of the next.
    .toSorted((a, b) => (a.value === b.value ? Number(b.isEnd) - Number(a.isEnd) : a.value < b.value ? -1 : 1));
  const greatest = (1n << BigInt(bitsOf(family))) - 1n;
  const ranges: string[] = [];
  for (const [index, { value, isEnd }] of ends.entries()) {
    if (isEnd) continue;
    const next = ends[index + 1];
    ranges.push(rangeText(family, { first: value, last: next === undefined ? greatest : next.value - 1n }));
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
