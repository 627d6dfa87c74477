import type { Change, Stored } from '../datastore/store.ts';
import { type Allocation, freeSlots, type IpBlock, isIdle } from '../model/ip-block.ts';

export interface ReleasePlan {
  readonly changes: Change[];
  readonly freed: readonly Allocation[];
  /** Whether there is more to free than one commit takes. */
  readonly isPartial: boolean;
}

/** How many blocks one commit releases from: what datastores take at once is bounded. */
const BLOCKS_PER_COMMIT = 16;

/** Frees allocations that pass `which`, of so many blocks as one commit takes; a block without owner that empties goes altogether. */
export function planRelease(
  blocks: readonly Stored<IpBlock>[],
  which: (allocation: Allocation) => boolean,
): ReleasePlan {
  const changes: Change[] = [];
  const freed: Allocation[] = [];
  for (const before of blocks) {
    if (changes.length === BLOCKS_PER_COMMIT) return { changes, freed, isPartial: true };
    const ids = new Set<string>();
    for (const allocation of before.value.slots.values()) {
      if (!which(allocation)) continue;
      ids.add(allocation.id);
      freed.push(allocation);
    }
    if (ids.size === 0) continue;
    const after = freeSlots(before.value, ids);
    const isLeft = after.node === undefined && isIdle(after);
    changes.push(isLeft ? { kind: 'delete-block', before } : { kind: 'update-block', before, after });
  }
  return { changes, freed, isPartial: false };
}
