import type { Change, Stored } from '../datastore/store.ts';
import { type Allocation, freeSlots, type IpBlock, isIdle } from '../model/ip-block.ts';

/** Frees every allocation that passes `which`; a block without owner that empties goes altogether. */
export function planRelease(blocks: readonly Stored<IpBlock>[], which: (allocation: Allocation) => boolean): Change[] {
  return blocks.flatMap((before): Change[] => {
    const ids = new Set([...before.value.slots.values()].filter(which).map(({ id }) => id));
    if (ids.size === 0) return [];
    const after = freeSlots(before.value, ids);
    const isLeft = after.node === undefined && isIdle(after);
    return [isLeft ? { kind: 'delete-block', before } : { kind: 'update-block', before, after }];
  });
}
