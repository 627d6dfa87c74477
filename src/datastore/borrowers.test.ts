import { describe, expect, it } from 'vitest';
import { type Allocation, emptyBlock, freeSlots, type IpBlock, takeSlot } from '../model/ip-block.ts';
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
    expect(borrowerChange(empty, lent)).toEqual({ noted: [b], forgotten: [] });
  });

  it('stays as it is when a borrower takes one more', () => {
    expect(borrowerChange(lent, takeSlot(lent, 2, holder('3', b)))).toEqual({ noted: [], forgotten: [] });
  });

  it('forgets a node with the last address it borrows', () => {
    expect(borrowerChange(lent, freeSlots(lent, new Set(['2'])))).toEqual({ noted: [], forgotten: [b] });
  });

  it('turns the old owner into a borrower and the new one into none', () => {
    expect(borrowerChange(lent, { ...lent, node: b })).toEqual({ noted: [a], forgotten: [b] });
  });

  it('notes every borrower again under a new owner', () => {
    expect(borrowerChange(lent, { ...lent, node: c })).toEqual({ noted: [a, b], forgotten: [] });
    expect(borrowerChange(lent, { ...lent, node: undefined })).toEqual({ noted: [a, b], forgotten: [] });
  });

  it('forgets everybody with the block', () => {
    expect(borrowerChange(lent, undefined)).toEqual({ noted: [], forgotten: [b] });
    expect(borrowerChange(undefined, lent)).toEqual({ noted: [b], forgotten: [] });
  });
});
