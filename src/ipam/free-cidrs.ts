import type { NodeName } from '../model/names.ts';
import { bitsOf } from '../net/address.ts';
import { type Cidr, cidrContains, formatCidr } from '../net/cidr.ts';
import type { Pool } from './choose-pools.ts';

/**
 * The block-sized CIDRs of a pool that nobody claims, beginning at a place the node's name decides and wrapping around,
 * so that nodes starting together ask for different blocks and one node's processes for the same one.
 */
export function* freeCidrs(
  pool: Pool,
  { isClaimed, reserved, node }: { isClaimed: (cidr: Cidr) => boolean; reserved: readonly Cidr[]; node: NodeName },
): Generator<Cidr> {
  const { blockSize } = pool.stored.value.spec;
  const { base, prefixBits } = pool.cidr;
  const count = 1n << BigInt(blockSize - prefixBits);
  const step = 1n << BigInt(bitsOf(base.family) - blockSize);
  const start = hash(node) % count;
  for (let offset = 0n; offset < count; offset += 1n) {
    const value = base.value + ((start + offset) % count) * step;
    const cidr: Cidr = { base: { family: base.family, value }, prefixBits: blockSize };
    if (isClaimed(cidr) || reserved.some((whole) => cidrContains(whole, cidr))) continue;
    yield cidr;
  }
}

/** Whether a CIDR is one of these. */
export function isOneOf(cidrs: readonly Cidr[]): (cidr: Cidr) => boolean {
  const texts = new Set(cidrs.map(formatCidr));
  return (cidr) => texts.has(formatCidr(cidr));
}

/** 64-bit FNV-1a: even for names that differ in their last digit only. */
function hash(text: string): bigint {
  let state = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text))
    state = BigInt.asUintN(64, (state ^ BigInt(byte)) * 0x100000001b3n);
  return state ^ (state >> 32n);
}
