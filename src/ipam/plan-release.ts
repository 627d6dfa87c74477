import type { Change, Stored } from '../datastore/allocation-store.ts';
import { type Allocation, type IpBlock, SLOTS_PER_WRITE } from '../model/ip-block.ts';
import { freeOperations } from '../model/slot-operation.ts';

export interface ReleasePlan {
  readonly changes: Change[];
  readonly freed: readonly Allocation[];
  /** Whether there is more to free than one commit takes. */
  readonly isPartial: boolean;
}

/** Number of blocks that one commit releases from: datastores limit the size of a transaction. */
const BLOCKS_PER_COMMIT = 16;

/**
 * Plans to free the allocations that pass `which`, of as many blocks as fit into one commit. Deletes ownerless blocks that
 * become empty. The addresses cool down from `releasedAt` on, in seconds since 1970; without it, none was ever used.
 */
export function planRelease(
  blocks: readonly Stored<IpBlock>[],
  which: (allocation: Allocation) => boolean,
  releasedAt?: number,
): ReleasePlan {
  const changes: Change[] = [];
  const freed: Allocation[] = [];
  let held = 0;
  for (const before of blocks) {
    const operations = freeOperations(before.value, which, releasedAt);
    if (operations.length === 0) continue;
    const isFull = changes.length === BLOCKS_PER_COMMIT || held + before.value.slots.size > SLOTS_PER_WRITE;
    if (changes.length > 0 && isFull) return { changes, freed, isPartial: true };
    held += before.value.slots.size;
    freed.push(...[...before.value.slots.values()].filter(which));
    const { node, slots, preallocated } = before.value;
    const isLeft = node === undefined && operations.length === slots.size && preallocated.size === 0;
    changes.push(isLeft ? { kind: 'delete-block', before, releasedAt } : { kind: 'update-block', before, operations });
  }
  return { changes, freed, isPartial: false };
}
