import type { Pool } from '../choose-pools.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { cidrContains } from '../../net/cidr.ts';

/** Fewer pod starts lately than this are no reason to claim a block before it is needed. */
const BUSY_STARTS = 8;

/** The pool whose next block should be claimed while the last one still has addresses; undefined when none is so busy. */
export function busyPool(
  pools: readonly Pool[],
  {
    own,
    limit,
    recent,
  }: {
    readonly own: readonly IpBlock[];
    /** Blocks of a family that the node may have; 0 for any number. */
    readonly limit: number;
    /** How many pods have come from the pool lately. */
    readonly recent: (pool: string) => number;
  },
): Pool | undefined {
  return pools.find(({ name, cidr, closed }) => {
    const starts = recent(name);
    if (starts < BUSY_STARTS || closed !== undefined) return false;
    const ofFamily = own.filter((block) => block.cidr.base.family === cidr.base.family);
    if (limit > 0 && ofFamily.length >= limit) return false;
    const inPool = ofFamily.filter((block) => cidrContains(cidr, block.cidr));
    const left = inPool.reduce((sum, { queue, preallocated }) => sum + queue.length + preallocated.size, 0);
    return left < starts / 2;
  });
}
