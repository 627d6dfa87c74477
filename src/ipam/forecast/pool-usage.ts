import { isReserved } from '../free-ordinals.ts';
import { type IpBlock } from '../../model/ip-block.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import { type IpReservation, reservedCidrs } from '../../model/ip-reservation.ts';
import {
  type Cidr,
  cidrContains,
  cidrSize,
  cidrsOverlap,
  formatCidr,
  outermostCidrs,
  parseCidr,
} from '../../net/cidr.ts';

export interface BlockUsage {
  readonly cidr: string;
  /** The owner; undefined when the block has none. */
  readonly node: string | undefined;
  readonly addresses: bigint;
  readonly held: number;
  /** Pre-allocated by the owner's agent. */
  readonly preallocated: number;
  readonly free: number;
  /** Number of addresses that are held on another node than the owner. */
  readonly borrowed: number;
}

export interface PoolUsage {
  /** Undefined for the blocks that lie in no pool. */
  readonly name: string | undefined;
  readonly cidr: string | undefined;
  readonly addresses: bigint;
  readonly held: bigint;
  /** Pre-allocated by agents. */
  readonly preallocated: bigint;
  /** Excluded by reservations and not held. */
  readonly reserved: bigint;
  readonly free: bigint;
  readonly blocks: readonly BlockUsage[];
}

/** Records from which the usage of pools is computed. */
export interface PoolRecords {
  readonly pools: readonly IpPool[];
  readonly reservations: readonly IpReservation[];
  readonly blocks: readonly IpBlock[];
}

/** Returns the usage of every pool, in the order of the pools, and last of blocks outside every pool, as one group. */
export function poolUsage({ pools, reservations, blocks }: PoolRecords): readonly PoolUsage[] {
  const reserved = outermostCidrs(reservedCidrs(reservations));
  const used = pools.map(({ metadata, spec }): PoolUsage => {
    const cidr = parseCidr(spec.cidr);
    const inside = blocks.filter((block) => cidrContains(cidr, block.cidr));
    const excluded = reservedIn(cidr, reserved) - heldIn(inside, reserved);
    return usageOf(inside, { name: metadata.name, cidr: spec.cidr, addresses: cidrSize(cidr), reserved: excluded });
  });
  const outside = blocks.filter(({ cidr }) => !pools.some(({ spec }) => cidrContains(parseCidr(spec.cidr), cidr)));
  if (outside.length === 0) return used;
  const addresses = outside.reduce((sum, { cidr }) => sum + cidrSize(cidr), 0n);
  // Nothing new is handed out from there.
  const usage = usageOf(outside, { name: undefined, cidr: undefined, addresses, reserved: 0n });
  return [...used, { ...usage, free: 0n }];
}

/** The whole per cent that are free, rounded down, so that 0 does not hide behind 1. */
export function percentFree({ free, addresses }: Pick<PoolUsage, 'free' | 'addresses'>): number {
  return addresses === 0n ? 0 : Number((free * 100n) / addresses);
}

function usageOf(
  blocks: readonly IpBlock[],
  { name, cidr, addresses, reserved }: Pick<PoolUsage, 'name' | 'cidr' | 'addresses' | 'reserved'>,
): PoolUsage {
  const held = BigInt(blocks.reduce((sum, { slots }) => sum + slots.size, 0));
  const preallocated = BigInt(blocks.reduce((sum, each) => sum + each.preallocated.size, 0));
  const free = addresses - held - preallocated - reserved;
  return { name, cidr, addresses, held, preallocated, reserved, free, blocks: blocks.map(blockUsage) };
}

function blockUsage({ cidr, node, slots, preallocated, queue }: IpBlock): BlockUsage {
  const borrowed = [...slots.values()].filter((allocation) => allocation.node !== node).length;
  const counts = { held: slots.size, preallocated: preallocated.size, free: queue.length, borrowed };
  return { cidr: formatCidr(cidr), node, addresses: cidrSize(cidr), ...counts };
}

function reservedIn(pool: Cidr, reserved: readonly Cidr[]): bigint {
  return reserved
    .filter((cidr) => cidrsOverlap(pool, cidr))
    .reduce((sum, cidr) => sum + (cidrContains(cidr, pool) ? cidrSize(pool) : cidrSize(cidr)), 0n);
}

function heldIn(blocks: readonly IpBlock[], reserved: readonly Cidr[]): bigint {
  let count = 0n;
  for (const block of blocks) {
    for (const ordinal of block.slots.keys()) if (isReserved(block, ordinal, reserved)) count += 1n;
  }
  return count;
}
