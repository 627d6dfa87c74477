import { getOrInsert } from '../base/get-or-insert.ts';
import type { NodeName } from '../model/names.ts';
import { bitsOf } from '../net/address.ts';
import { type Cidr, cidrContains, cidrsOverlap, formatCidr } from '../net/cidr.ts';
import type { Pool } from './choose-pools.ts';

/**
 * Yields the block-sized CIDRs of a pool that are unclaimed, from an offset that depends on the node's name, wrapping around,
 * so that nodes starting together ask for different blocks and one node's processes for the same one.
 */
export function* freeCidrs(
  pool: Pool,
  { isClaimed, reserved, node }: { isClaimed: (cidr: Cidr) => boolean; reserved: readonly Cidr[]; node: NodeName },
): Generator<Cidr> {
  const count = placesIn(pool);
  const start = firstPlace(pool, node);
  for (let offset = 0n; offset < count;) {
    const place = (start + offset) % count;
    const cidr = cidrAtPlace(pool, place);
    const reservation = reserved.find((whole) => cidrContains(whole, cidr));
    if (reservation !== undefined) {
      offset += placeAfter(pool, reservation) - place;
      continue;
    }
    if (!isClaimed(cidr)) yield cidr;
    offset += 1n;
  }
}

/** Returns the first place after a range that contains a block of the pool, at most the number of places. */
function placeAfter(pool: Pool, { base, prefixBits }: Cidr): bigint {
  const end = base.value + (1n << BigInt(bitsOf(base.family) - prefixBits));
  const place = (end - pool.cidr.base.value) >> BigInt(bitsOf(base.family) - pool.stored.value.spec.blockSize);
  const count = placesIn(pool);
  return place < count ? place : count;
}

/** Returns a function that reports whether a CIDR overlaps one of these blocks, which may be of another size. */
export function overlapsOneOf(blocks: readonly Cidr[]): (cidr: Cidr) => boolean {
  const texts = new Set(blocks.map(formatCidr));
  const others = new Map<number, readonly Cidr[]>();
  return (cidr) => {
    if (texts.has(formatCidr(cidr))) return true;
    const findOthers = (): readonly Cidr[] => blocks.filter(({ prefixBits }) => prefixBits !== cidr.prefixBits);
    return getOrInsert(others, cidr.prefixBits, findOthers).some((block) => cidrsOverlap(block, cidr));
  };
}

/** Returns how many blocks fit into the pool. */
export function placesIn({ cidr, stored }: Pool): bigint {
  return 1n << BigInt(stored.value.spec.blockSize - cidr.prefixBits);
}

/** Returns the place, from 0, at which a node starts its search for a free block. */
export function firstPlace(pool: Pool, node: NodeName): bigint {
  return hash(node) % placesIn(pool);
}

export function cidrAtPlace({ cidr: { base }, stored }: Pool, place: bigint): Cidr {
  const { blockSize } = stored.value.spec;
  const step = 1n << BigInt(bitsOf(base.family) - blockSize);
  return { base: { family: base.family, value: base.value + place * step }, prefixBits: blockSize };
}

/** Returns the place of the block in the pool; undefined for a block of another size. */
export function placeOf({ cidr: { base }, stored }: Pool, cidr: Cidr): bigint | undefined {
  const { blockSize } = stored.value.spec;
  if (cidr.prefixBits !== blockSize) return undefined;
  return (cidr.base.value - base.value) >> BigInt(bitsOf(base.family) - blockSize);
}

/** 64-bit FNV-1a, folded: spreads names evenly that differ in their last digit only. */
function hash(text: string): bigint {
  let state = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text))
    state = BigInt.asUintN(64, (state ^ BigInt(byte)) * 0x100000001b3n);
  return state ^ (state >> 32n);
}
