import type { ResidentState } from '../../ipam/node/resident-state.ts';
import type { AGENT_METRICS } from '../../metrics/agent-metrics.ts';
import type { Registered } from '../../metrics/register.ts';
import { cidrSize } from '../../net/cidr.ts';

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
  /** Every pool of the cluster with the number of its addresses, approximate beyond 2^53. */
  readonly sizes: readonly { readonly pool: string; readonly size: number }[];
  /** The blocks of this node. */
  readonly blocks: readonly ({ readonly pool: string; readonly block: string } & AddressCounts)[];
}

const STATES = ['free', 'held', 'preallocated'] as const;

/** Counts the addresses of the node's own blocks, by pool and by block. */
export function addressUse(states: readonly Pick<ResidentState, 'blocks' | 'pools'>[]): AddressUsage {
  const blocks = states.flatMap((state) => state.blocks).map(({ cidr, ...counts }) => ({ block: cidr, ...counts }));
  const pools = new Map<string, { free: number; held: number; preallocated: number }>();
  for (const { pool, free, held, preallocated } of blocks) {
    const sum = pools.get(pool) ?? { free: 0, held: 0, preallocated: 0 };
    pools.set(pool, { free: sum.free + free, held: sum.held + held, preallocated: sum.preallocated + preallocated });
  }
  const sizes = states
    .flatMap((state) => state.pools)
    .map(({ name, cidr }) => ({ pool: name, size: Number(cidrSize(cidr)) }));
  return { pools: [...pools].map(([pool, counts]) => ({ pool, ...counts })), sizes, blocks };
}

/** Sets the metrics of addresses. */
export function setAddresses(metrics: Registered<typeof AGENT_METRICS>, use: AddressUsage): void {
  const { netplug_pool_addresses: pools, netplug_pool_size: sizes, netplug_block_addresses: blocks } = metrics;
  for (const gauge of [pools, sizes, blocks]) gauge.reset();
  for (const { pool, ...counts } of use.pools) for (const state of STATES) pools.set({ pool, state }, counts[state]);
  for (const { pool, size } of use.sizes) sizes.set({ pool }, size);
  for (const { pool, block, ...counts } of use.blocks)
    for (const state of STATES) blocks.set({ pool, block, state }, counts[state]);
}
