import { freeSlots, takeSlot } from '../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { type Allocation, emptyBlock, type IpBlock } from '../model/ip-block.ts';
import { handleOf, type NodeName } from '../model/names.ts';
import { parseCidr } from '../net/cidr.ts';
import { borrowerChange } from './borrowers.ts';

const [a, b, c] = ['a', 'b', 'c'] as [NodeName, NodeName, NodeName];
const holder = (id: string, node: NodeName): Allocation => {
  const attachment = { network: 'net', containerId: id, ifName: 'eth0' };
  return { id, node, ...attachment, handle: handleOf(attachment), at: '2026-01-01T00:00:00Z', chosenBy: 'request' };
};
const empty = emptyBlock(parseCidr('10.0.0.0/30'), a);
const lent: IpBlock = takeSlot(takeSlot(empty, 0, holder('1', a)), 1, holder('2', b));

describe('the index of borrowers', () => {
  it('notes a node that takes an address of a block of another', () => {
    expect(borrowerChange(empty, lent)).toEqual({ updated: new Map([[b, [1]]]), removed: [] });
  });

  it('notes a borrower again that takes one more or gives one back', () => {
    const more = takeSlot(lent, 3, holder('3', b));
    expect(borrowerChange(lent, more)).toEqual({ updated: new Map([[b, [1, 3]]]), removed: [] });
    const less = freeSlots(more, new Set(['2']));
    expect(borrowerChange(more, less)).toEqual({ updated: new Map([[b, [3]]]), removed: [] });
  });

  it('stays as it is while the owner takes and frees', () => {
    const busy = takeSlot(lent, 2, holder('3', a));
    expect(borrowerChange(lent, busy)).toEqual({ updated: new Map(), removed: [] });
    expect(borrowerChange(busy, freeSlots(busy, new Set(['1', '3'])))).toEqual({ updated: new Map(), removed: [] });
  });

  it('forgets a node with the last address it borrows', () => {
    expect(borrowerChange(lent, freeSlots(lent, new Set(['2'])))).toEqual({ updated: new Map(), removed: [b] });
  });

  it('turns the old owner into a borrower and the new one into none', () => {
    expect(borrowerChange(lent, { ...lent, node: b })).toEqual({ updated: new Map([[a, [0]]]), removed: [b] });
  });

  it('notes every borrower again under a new owner', () => {
    const both = new Map([
      [a, [0]],
      [b, [1]],
    ]);
    expect(borrowerChange(lent, { ...lent, node: c })).toEqual({ updated: both, removed: [] });
    expect(borrowerChange(lent, { ...lent, node: undefined })).toEqual({ updated: both, removed: [] });
  });

  it('forgets everybody with the block', () => {
    expect(borrowerChange(lent, undefined)).toEqual({ updated: new Map(), removed: [b] });
    expect(borrowerChange(undefined, lent)).toEqual({ updated: new Map([[b, [1]]]), removed: [] });
  });
});
