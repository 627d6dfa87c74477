import type { Pool } from '../choose-pools.ts';
import { type CoolDown, countCooling } from '../../model/cool-down.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { cidrContains } from '../../net/cidr.ts';

/** The fewest recent pod starts for which a block is claimed ahead. */
const BUSY_STARTS = 8;

/** Returns the pool whose next block should be claimed ahead; undefined when no pool is that busy. */
export function busyPool(
  pools: readonly Pool[],
  {
    own,
    limit,
    recent,
    coolDown,
  }: {
    readonly own: readonly IpBlock[];
    /** The most blocks of a family that the node may own; 0 for no limit. */
    readonly limit: number;
    /** Returns the number of recent pod starts with an address of the pool. */
    readonly recent: (pool: string) => number;
    /** Addresses that cool down are not there yet. */
    readonly coolDown: CoolDown;
  },
): Pool | undefined {
  return pools.find(({ name, cidr, closed }) => {
    const starts = recent(name);
    if (starts < BUSY_STARTS || closed !== undefined) return false;
    const ofFamily = own.filter((block) => block.cidr.base.family === cidr.base.family);
    if (limit > 0 && ofFamily.length >= limit) return false;
    const inPool = ofFamily.filter((block) => cidrContains(cidr, block.cidr));
    const left = inPool.reduce(
      (sum, block) => sum + block.queue.length - countCooling(block, coolDown) + block.preallocated.size,
      0,
    );
    return left < starts / 2;
  });
}
