import { freeSlots, preallocate, takeSlot, updateTo } from '../../../test/support/block-edits.ts';
import { describe, expect, it } from 'vitest';
import { type Allocation, emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import { handleOf, type NodeName } from '../../model/names.ts';
import { cidrAround, parseCidr } from '../../net/cidr.ts';
import type { Change } from '../allocation-store.ts';
import { Keys } from './keys.ts';
import { planCommit } from './plan-commit.ts';
import { decodeText } from './requests.ts';

const keys = new Keys('/p');
const owner = 'n1' as NodeName;
const block = emptyBlock(parseCidr('10.0.0.0/30'), owner);
const update = (after: IpBlock): Change => updateTo({ value: block, version: '7' }, after);

function writes(...changes: Change[]): string[] {
  return planCommit(keys, changes).success.map(({ request }) => {
    if (request?.$case === 'requestPut') return `put ${decodeText(request.value.key)}`;
    return request?.$case === 'requestDeleteRange' ? `delete ${decodeText(request.value.key)}` : 'read';
  });
}

describe('the transaction of a commit', () => {
  it('writes one key when a block changes under its owner', () => {
    expect(writes(update(preallocate(block, new Map([[0, 'run#1']]))))).toEqual([
      'put /p/ipam/blocks/n1/4/0a000000-030',
    ]);
  });

  it('moves a block, and its claim with it, when the owner changes', () => {
    expect(writes(update({ ...block, node: undefined }))).toEqual([
      'put /p/ipam/claims/4/0a000000-030',
      'delete /p/ipam/blocks/n1/4/0a000000-030',
      'put /p/ipam/blocks/-/4/0a000000-030',
    ]);
  });

  it('notes which addresses a borrower holds, whenever they are others', () => {
    const attachment = { network: 'net', containerId: 'c', ifName: 'eth0' };
    const holder = (id: string, node: string): Allocation => ({
      id,
      node: node as NodeName,
      ...attachment,
      handle: handleOf(attachment),
      at: '2026-01-01T00:00:00Z',
      chosenBy: 'request',
    });
    const values = (before: IpBlock, after: IpBlock): string[] =>
      planCommit(keys, [updateTo({ value: before, version: '7' }, after)])
        .success.slice(1)
        .map(({ request }) => (request?.$case === 'requestPut' ? decodeText(request.value.value) : 'delete'));
    const lent = takeSlot(block, 2, holder('x', 'n2'));
    expect(values(block, lent)).toEqual(['{"owner":"n1","ordinals":[2]}']);
    expect(values(lent, takeSlot(lent, 0, holder('y', 'n2')))).toEqual(['{"owner":"n1","ordinals":[0,2]}']);
    expect(values(lent, takeSlot(lent, 0, holder('y', 'n1')))).toEqual([]);
    expect(values(lent, freeSlots(lent, new Set(['x'])))).toEqual(['delete']);
  });

  it('refuses an operation on another block', () => {
    const other = parseCidr('10.0.0.4/30');
    const operations = [{ kind: 'preallocate', block: other, ordinal: 0, id: 'run#1' }] as const;
    expect(() => writes({ kind: 'update-block', before: { value: block, version: '7' }, operations })).toThrow(
      'names a block other than 10.0.0.0/30',
    );
  });

  it('refuses more conditions than etcd takes at once', () => {
    const many = Array.from({ length: 129 }, (_, index): Change => {
      const cidr = cidrAround({ family: 4, value: BigInt(index * 4) }, 30);
      return { kind: 'update-block', before: { value: emptyBlock(cidr, owner), version: '1' }, operations: [] };
    });
    expect(() => writes(...many)).toThrow('129 conditions and 129 operations is more than etcd takes');
    expect(writes(...many.slice(1))).toHaveLength(128);
  });
});
