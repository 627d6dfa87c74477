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
    const held = BigInt(inside.reduce((sum, { slots }) => sum + slots.size, 0));
    const excluded = reservedIn(cidr, reserved) - heldIn(inside, reserved);
    const preallocated = preallocatedIn(inside);
    const addresses = cidrSize(cidr);
    const free = addresses - held - preallocated - excluded;
    return {
      name: metadata.name,
      cidr: spec.cidr,
      addresses,
      held,
      preallocated,
      reserved: excluded,
      free,
      blocks: inside.map(blockUsage),
    };
  });
  const outside = blocks.filter(({ cidr }) => !pools.some(({ spec }) => cidrContains(parseCidr(spec.cidr), cidr)));
  if (outside.length === 0) return used;
  const held = BigInt(outside.reduce((sum, { slots }) => sum + slots.size, 0));
  const addresses = outside.reduce((sum, { cidr }) => sum + cidrSize(cidr), 0n);
  // Nothing new is handed out from there.
  return [
    ...used,
    {
      name: undefined,
      cidr: undefined,
      addresses,
      held,
      preallocated: preallocatedIn(outside),
      reserved: 0n,
      free: 0n,
      blocks: outside.map(blockUsage),
    },
  ];
}

/** The whole per cent that are free, rounded down, so that 0 does not hide behind 1. */
export function percentFree({ free, addresses }: Pick<PoolUsage, 'free' | 'addresses'>): number {
  return addresses === 0n ? 0 : Number((free * 100n) / addresses);
}

function preallocatedIn(blocks: readonly IpBlock[]): bigint {
  return BigInt(blocks.reduce((sum, { preallocated }) => sum + preallocated.size, 0));
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
