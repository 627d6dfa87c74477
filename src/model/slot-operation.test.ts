import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { freeSlots, preallocate, takeSlot } from '../../test/support/block-edits.ts';
import { parseCidr } from '../net/cidr.ts';
import { type Allocation, blockFaults, emptyBlock, hasAddressOf } from './ip-block.ts';
import { handleOf, type NodeName } from './names.ts';
import {
  applyOperations,
  BlockDraft,
  freeOperations,
  insistOn,
  reclaimOperations,
  type SlotOperation,
  type TakeSlot,
  undoOf,
} from './slot-operation.ts';

const block = parseCidr('10.0.0.0/30');
const [a, b] = ['a', 'b'] as NodeName[] as [NodeName, NodeName];
const empty = emptyBlock(block, a);

function allocation(id: string): Allocation {
  const attachment = { network: 'net', containerId: id, ifName: 'eth0' };
  const handle = handleOf(attachment);
  return { id, handle, node: a, ...attachment, at: '2026-01-01T00:00:00Z', chosenBy: 'request' };
}

function take(ordinal: number, id: string, from?: string): TakeSlot {
  return { kind: 'take', block, ordinal, from, allocation: allocation(id) };
}

describe('operations on the slots of a block', () => {
  it.each<[string, SlotOperation]>([
    ['takes a slot that another allocation holds', take(0, 'y')],
    ['takes the slot of an allocation that no longer holds it', take(0, 'y', 'gone')],
    ['takes a pre-allocated address as if it were free', take(1, 'y')],
    ['pre-allocates a slot that is held', { kind: 'preallocate', block, ordinal: 0, id: 'run#2' }],
    ['requests an address that is not pre-allocated under the id', { kind: 'request', block, ordinal: 1, id: 'run#2' }],
    ['changes the owner from a node that is not the owner', { kind: 'change-owner', block, from: b, to: undefined }],
  ])('do not apply when one %s', (_, operation) => {
    const held = preallocate(takeSlot(empty, 0, allocation('x')), new Map([[1, 'run#1']]));
    expect(applyOperations(held, [operation])).toBeUndefined();
    expect(() => new BlockDraft(held).apply([operation])).toThrow('does not fit block 10.0.0.0/30');
  });

  it('do not free a newer allocation', () => {
    const held = takeSlot(empty, 0, allocation('new'));
    expect(applyOperations(held, [undoOf(take(0, 'old'))])).toBe(held);
  });

  it('record who released an address and when, until it is assigned or pre-allocated, and nothing of an ADD that failed', () => {
    const pod = { ...allocation('x'), namespace: 'shop', pod: 'web' };
    const held = takeSlot(takeSlot(takeSlot(empty, 0, pod), 1, allocation('y')), 2, allocation('z'));
    const used = applyOperations(
      held,
      freeOperations(held, ({ id }) => id !== 'z', 100),
    )!;
    const released = new Map([
      [0, { at: 100, holder: 'shop/web' }],
      [1, { at: 100, holder: String(allocation('y').handle) }],
    ]);
    expect(used.released).toEqual(released);
    expect(applyOperations(used, [undoOf(take(2, 'z'))])?.released).toEqual(released);
    const again = applyOperations(used, [take(0, 'w'), { kind: 'preallocate', block, ordinal: 1, id: 'run#1' }]);
    expect(again?.released).toEqual(new Map());
  });

  it('assign a reclaimed address next, and a requested one last', () => {
    const ids = new Map([0, 1, 2].map((ordinal) => [ordinal, `run#${String(ordinal)}`]));
    const withPreallocated = { ...preallocate(empty, ids), requested: new Set([1]) };
    const reclaimed = applyOperations(
      withPreallocated,
      reclaimOperations(withPreallocated, () => true),
    );
    expect(reclaimed).toEqual({ ...empty, queue: [0, 2, 3, 1] });
  });

  it('record an address that was returned to a caller, unless another allocation holds it', () => {
    const operation = take(0, 'x', 'run#1');
    expect(applyOperations(empty, [operation])).toBeUndefined();
    expect(applyOperations(empty, [insistOn(empty, operation)])?.slots.get(0)?.id).toBe('x');
    const other = preallocate(empty, new Map([[0, 'other#1']]));
    expect(applyOperations(other, [insistOn(other, operation)])).toMatchObject({ preallocated: new Map() });
    const held = takeSlot(empty, 0, allocation('y'));
    expect(applyOperations(held, [insistOn(held, operation)])).toBeUndefined();
  });

  it('keep a block consistent, and change nothing when they are applied again', () => {
    const operation = fc.record({ kind: fc.nat(4), ordinal: fc.nat(3), id: fc.nat(2) }).map(({ kind, ordinal, id }) => {
      const slot = { block, ordinal, id: `run#${String(id)}` } as const;
      const from = [undefined, 'a0', slot.id][id];
      const all: SlotOperation[] = [
        take(ordinal, `a${String(id)}`, from),
        undoOf(take(ordinal, `a${String(id)}`), 100),
        { kind: 'preallocate', ...slot },
        { kind: 'reclaim', ...slot },
        { kind: 'request', ...slot },
      ];
      return all[kind]!;
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 20 }), (operations) => {
        let now = empty;
        for (const each of operations) {
          now = applyOperations(now, [each]) ?? now;
          expect(blockFaults(now)).toEqual([]);
          expect(now.queue).toEqual(expect.arrayContaining([...now.released.keys()]));
          expect(applyOperations(now, [each]) ?? now).toBe(now);
        }
      }),
    );
  });

  it('have the same result when they are applied together or one by one', () => {
    const operations = [take(2, 'x'), take(2, 'y', 'x'), undoOf(take(2, 'y'))];
    const oneByOne = operations.reduce((now, each) => applyOperations(now, [each])!, empty);
    expect(applyOperations(empty, operations)).toEqual(oneByOne);
    expect(oneByOne).toEqual(freeSlots(takeSlot(empty, 2, allocation('y')), new Set(['y'])));
  });
});

it('a block knows the handles that hold its addresses, after each operation', () => {
  const { handle } = allocation('x');
  const held = takeSlot(empty, 0, allocation('x'));
  const shown = { ...held, queue: [] };
  const freed = freeSlots(held, new Set(['x']));
  expect([empty, held, shown, freed].map((each) => hasAddressOf(each, handle))).toEqual([false, true, true, false]);
  expect(hasAddressOf(held, allocation('y').handle)).toBe(false);
});
