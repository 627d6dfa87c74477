/** Elements of nftables sets as bytes, and back to their canonical texts. Pure. */
import { slicesOf } from '../../base/slices.ts';
import { type Family, addressBytes, bitsOf, parseAddress } from '../../net/address.ts';
import { type Cidr, parseCidr } from '../../net/cidr.ts';
import type { FilterSet } from '../policy-filter.ts';
import { AddressElements } from './address-elements.ts';
import { type Attributes, attribute, attributesIn, nested } from './netlink.ts';
import { be32Attribute, be64Attribute, be64Of } from './nft-messages.ts';
import { NFTA_DATA, NFTA_LIST_ELEM, NFTA_SET_ELEM, NFT_SET_ELEM_INTERVAL_END } from './nft-numbers.ts';
import { verdictData } from './nft-steps.ts';
import { addressType, decodeKey, encodeKey, keyType } from './nft-types.ts';

export const NFT_GOTO = -4;
/** The length of an attribute, which contains the elements of one message, has 16 bits. */
const LIST_BYTES = 60_000;
/** The largest key of an element, encoded: a range of IPv6 addresses, or addresses and ports of a flow. */
const KEY_BYTES = 64;
/** The largest value of an element, encoded: a verdict with the name of a chain. */
const DATA_BYTES = 280;

const GREATEST: Readonly<Record<Family, bigint>> = { 4: (1n << 32n) - 1n, 6: (1n << 128n) - 1n };

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
  const ofKey = nested(NFTA_SET_ELEM.KEY, [attribute(NFTA_DATA.VALUE, key)]);
  return nested(NFTA_LIST_ELEM, more.length === 0 ? [ofKey] : [ofKey, ...more]);
}

/** Encodes elements of a set in pieces that fit into one message each. Deleting needs the keys only. */
export function elementLists(set: FilterSet, elements: Iterable<string>): readonly Buffer[] {
  return slicesOf([...elements], mostInList(set)).map((texts) => elementList(set, texts));
}

/** Returns how many elements of the set fit into one message. */
export function mostInList(set: FilterSet): number {
  return Math.floor(LIST_BYTES / (isMap(set) ? KEY_BYTES + DATA_BYTES : KEY_BYTES));
}

/** Encodes elements of a set that fit into one message. Deleting needs the keys only. */
export function elementList(set: FilterSet, texts: readonly string[]): Buffer {
  if (set.kind !== 'nets' && set.kind !== 'addresses')
    return Buffer.concat(texts.map((text) => encodeElement(set, text)));
  const elements = new AddressElements(set.family, 2 * texts.length);
  for (const text of texts)
    if (set.kind === 'nets') addRange(elements, rangeFrom(text), set.family);
    else elements.add(parseAddress(text).value, false);
  return elements.written;
}

/** A range is its first address, and the address after its last one unless that is the greatest. */
function addRange(elements: AddressElements, { first, last }: ElementInterval, family: Family): void {
  elements.add(first, false);
  if (last < GREATEST[family]) elements.add(last + 1n, true);
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
  return element(encodeKey(keyType(set), text), dataOfElement(set, text));
}

/** Returns what the map has for the key; nothing for a set, or for a key alone. */
function dataOfElement(set: FilterSet, text: string): readonly Buffer[] {
  if (!isMap(set)) return [];
  const value = set.elements.get(text);
  if (value === undefined) return [];
  const data =
    set.kind === 'interfaces'
      ? verdictData(NFT_GOTO, value)
      : attribute(NFTA_DATA.VALUE, encodeKey(addressType(set.family), value));
  return [nested(NFTA_SET_ELEM.DATA, [data])];
}

export function isMap(set: FilterSet): set is Extract<FilterSet, { readonly kind: 'interfaces' | 'translations' }> {
  return set.kind === 'interfaces' || set.kind === 'translations';
}

function rangeFrom(text: string): ElementInterval {
  if (!text.includes('-')) return intervalOf(parseCidr(text));
  const [first, last] = text.split('-').map((end) => (end.includes('/') ? undefined : parseAddress(end).value));
  return first === undefined || last === undefined ? intervalOf(parseCidr(text)) : { first, last };
}

export function keyIn(attributes: Attributes): Buffer {
  return attributesIn(attributes, NFTA_SET_ELEM.KEY).get(NFTA_DATA.VALUE) ?? Buffer.alloc(0);
}
