// Blocks as tests want them, and the operations that lead from one to another.
import { isDeepStrictEqual } from 'node:util';
import { invariant } from '../../src/base/errors.ts';
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import type { Allocation, IpBlock } from '../../src/model/ip-block.ts';
import { applyOperations, freeOperations, type SlotOperation } from '../../src/model/slot-operation.ts';

export function takeSlot(block: IpBlock, ordinal: number, allocation: Allocation): IpBlock {
  const from = block.slots.get(ordinal)?.id ?? block.preallocated.get(ordinal);
  return edited(block, [{ kind: 'take', block: block.cidr, ordinal, from, allocation }]);
}

/** Without `releasedAt`, in seconds since 1970, the addresses were never used. */
export function freeSlots(block: IpBlock, ids: ReadonlySet<string>, releasedAt?: number): IpBlock {
  return edited(
    block,
    freeOperations(block, ({ id }) => ids.has(id), releasedAt),
  );
}

/** The block with free addresses pre-allocated under these ids. */
export function preallocate(block: IpBlock, ids: ReadonlyMap<number, string>): IpBlock {
  return edited(
    block,
    [...ids].map(([ordinal, id]) => ({ kind: 'preallocate', block: block.cidr, ordinal, id })),
  );
}

/** The change that writes `after` over the block as it was read; what becomes free goes where a release puts it. */
export function updateTo(before: Stored<IpBlock>, after: IpBlock): Extract<Change, { kind: 'update-block' }> {
  const operations = operationsBetween(before.value, after);
  const written = applyOperations(before.value, operations);
  invariant(written !== undefined && isSame(written, after), 'no operations lead to such a block');
  return { kind: 'update-block', before, operations };
}

function isSame(a: IpBlock, b: IpBlock): boolean {
  const inOrder = (block: IpBlock): unknown => ({ ...block, queue: block.queue.toSorted((one, other) => one - other) });
  return isDeepStrictEqual(inOrder(a), inOrder(b));
}

function operationsBetween(before: IpBlock, after: IpBlock): readonly SlotOperation[] {
  const { cidr: block } = before;
  const taken = [...after.slots].flatMap(([ordinal, allocation]): SlotOperation[] => {
    const old = before.slots.get(ordinal)?.id;
    const from = old ?? before.preallocated.get(ordinal);
    return old === allocation.id ? [] : [{ kind: 'take', block, ordinal, from, allocation }];
  });
  const set = [...after.preallocated].map(([ordinal, id]): SlotOperation => ({
    kind: 'preallocate',
    block,
    ordinal,
    id,
  }));
  const unset = [...before.preallocated].flatMap(([ordinal, id]): SlotOperation[] =>
    after.preallocated.has(ordinal) || after.slots.has(ordinal) ? [] : [{ kind: 'reclaim', block, ordinal, id }],
  );
  const asked = [...after.requested].map((ordinal): SlotOperation => ({
    kind: 'request',
    block,
    ordinal,
    id: after.preallocated.get(ordinal) ?? '',
  }));
  const moved: SlotOperation = { kind: 'change-owner', block, from: before.node, to: after.node };
  const freed = [...before.slots].flatMap(([ordinal, { id }]) => (after.slots.has(ordinal) ? [] : id));
  return [
    ...taken,
    ...freeOperations(before, ({ id }) => freed.includes(id)),
    ...unset.toReversed(),
    ...set,
    ...asked,
    ...(before.node === after.node ? [] : [moved]),
  ];
}

function edited(block: IpBlock, operations: readonly SlotOperation[]): IpBlock {
  const after = applyOperations(block, operations);
  invariant(after !== undefined, 'the block has no such slot');
  return after;
}
