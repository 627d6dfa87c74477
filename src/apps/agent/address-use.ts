import { Gauge, type Registry } from '@prometheus-io/client';
import type { ResidentState } from '../../ipam/node/resident-node.ts';

/** The numbers of addresses of a pool or a block, by state. */
export interface AddressCounts {
  /** Approximate beyond 2^53. */
  readonly free: number;
  readonly held: number;
  /** Pre-allocated to this node's agent, which assigns them without waiting for the datastore. */
  readonly preallocated: number;
}

export interface AddressUsage {
  readonly pools: readonly ({ readonly pool: string } & AddressCounts)[];
  /** The blocks of this node. */
  readonly blocks: readonly ({ readonly pool: string; readonly block: string } & AddressCounts)[];
}

const STATES = ['free', 'held', 'preallocated'] as const;

/** Counts the addresses of the node's own blocks, by pool and by block. */
export function addressUse(states: readonly Pick<ResidentState, 'blocks'>[]): AddressUsage {
  const blocks = states.flatMap((state) => state.blocks).map(({ cidr, ...counts }) => ({ block: cidr, ...counts }));
  const pools = new Map<string, { free: number; held: number; preallocated: number }>();
  for (const { pool, free, held, preallocated } of blocks) {
    const sum = pools.get(pool) ?? { free: 0, held: 0, preallocated: 0 };
    pools.set(pool, { free: sum.free + free, held: sum.held + held, preallocated: sum.preallocated + preallocated });
  }
  return { pools: [...pools].map(([pool, counts]) => ({ pool, ...counts })), blocks };
}

/** Registers the gauges of addresses. Returns the function that sets them. */
export function addressGauges(registers: Registry[]): (use: AddressUsage) => void {
  const pools = new Gauge({
    name: 'netplug_pool_addresses',
    help: 'Addresses of a pool in the blocks of this node, by state: free, held, preallocated.',
    labelNames: ['pool', 'state'],
    registers,
  });
  const blocks = new Gauge({
    name: 'netplug_block_addresses',
    help: 'Addresses of a block of this node, by state: free, held, preallocated.',
    labelNames: ['pool', 'block', 'state'],
    registers,
  });
  return (use) => {
    pools.reset();
    blocks.reset();
    for (const { pool, ...counts } of use.pools) for (const state of STATES) pools.set({ pool, state }, counts[state]);
    for (const { pool, block, ...counts } of use.blocks)
      for (const state of STATES) blocks.set({ pool, block, state }, counts[state]);
  };
}
