import { type Cidr, cidrContains } from '../net/cidr.ts';
import type { Pool } from './choose-pools.ts';
import { type Cooling, freeOrdinals, readyOrdinals } from './free-ordinals.ts';
import { blocksInOrder, type PlannedBlock } from './planned-block.ts';

/** A block with a free address. */
export interface BlockCandidate {
  readonly planned: PlannedBlock;
  readonly pool: Pool;
  /** The address to assign: the next one that does not cool down, else the next one. */
  readonly ordinal: number;
  readonly isCooling: boolean;
}

/** Returns the blocks of the pool that have a free address. */
export function candidatesIn(
  pool: Pool,
  blocks: readonly PlannedBlock[],
  { reserved, cooling }: { readonly reserved: readonly Cidr[]; readonly cooling: Cooling },
): BlockCandidate[] {
  return blocks
    .filter(({ block }) => cidrContains(pool.cidr, block.cidr))
    .flatMap((planned) => {
      const [ready] = readyOrdinals(planned.block, reserved, cooling);
      const [ordinal] = ready === undefined ? freeOrdinals(planned.block, reserved) : [ready];
      return ordinal === undefined ? [] : [{ planned, pool, ordinal, isCooling: ready === undefined }];
    });
}

/** Orders by the number of free addresses, most first. */
export function byRoom({ planned: a }: BlockCandidate, { planned: b }: BlockCandidate): number {
  const room = b.block.queue.length - a.block.queue.length;
  return room === 0 ? blocksInOrder(a, b) : room;
}

/** Orders by the time of the release, the earliest first. */
export function byRelease(a: BlockCandidate, b: BlockCandidate): number {
  return releasedAt(a) - releasedAt(b);
}

function releasedAt({ planned, ordinal }: BlockCandidate): number {
  return planned.block.released.get(ordinal)?.at ?? 0;
}
