import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cidrAround, parseCidr } from '../net/cidr.ts';
import { decodeBlock, encodeBlock } from './ip-block-codec.ts';
import { freeSlots, takeSlot } from '../../test/support/block-edits.ts';
import { type Allocation, emptyBlock, type IpBlock } from './ip-block.ts';
import { handleOf, type NodeName } from './names.ts';

const text = fc.string({ minLength: 1, unit: 'grapheme' });
const nodeName = text.map((name) => name as NodeName);
const allocation = fc
  .record(
    {
      node: nodeName,
      network: text,
      containerId: text,
      ifName: text,
      namespace: text,
      pod: text,
      podUid: text,
      at: fc.constant('2026-01-01T00:00:00Z'),
      chosenBy: fc.constantFrom<Allocation['chosenBy'][]>('request', 'netconf', 'node-selector'),
    },
    { requiredKeys: ['node', 'network', 'containerId', 'ifName', 'at', 'chosenBy'] },
  )
  .map((fields) => ({ ...fields, handle: handleOf(fields) }));

const cidr = fc.oneof(
  fc
    .tuple(fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }), fc.integer({ min: 24, max: 32 }))
    .map(([value, bits]) => cidrAround({ family: 4, value }, bits)),
  fc
    .tuple(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), fc.integer({ min: 120, max: 128 }))
    .map(([value, bits]) => cidrAround({ family: 6, value }, bits)),
);

/** A block after some addresses were assigned and some of them released. */
const block: fc.Arbitrary<IpBlock> = fc
  .record({
    cidr,
    node: fc.option(nodeName, { nil: undefined }),
    taken: fc.array(fc.tuple(fc.nat(), allocation, fc.boolean()), { maxLength: 20 }),
  })
  .map(({ cidr: at, node, taken }) => {
    let made = emptyBlock(at, 'made' as NodeName);
    for (const [index, [pick, fields]] of taken.entries()) {
      const ordinal = made.queue[pick % Math.max(1, made.queue.length)];
      if (ordinal !== undefined) made = takeSlot(made, ordinal, { ...fields, id: `id-${String(index)}` });
    }
    const freed = taken.flatMap(([, , isFreed], index) => (isFreed ? [`id-${String(index)}`] : []));
    return { ...freeSlots(made, new Set(freed), 1_800_000_000), node };
  });

describe('block records', () => {
  it('decode pre-allocated and requested addresses, also under the names of the first builds', () => {
    const ids = { 1: 'run#1', 2: 'run#2' };
    const base = { format: 1, cidr: '10.0.0.0/30', node: 'n1', slots: {}, free: '0,3' };
    const decoded = decodeBlock({ ...base, preallocated: ids, requested: [2] });
    expect(decoded).toMatchObject({
      block: {
        preallocated: new Map([
          [1, 'run#1'],
          [2, 'run#2'],
        ]),
        requested: new Set([2]),
      },
    });
    expect(decodeBlock({ ...base, stock: ids, wanted: [2] })).toEqual(decoded);
  });

  it('decode to the block that was encoded', () => {
    fc.assert(
      fc.property(block, (before) => {
        expect(decodeBlock(JSON.parse(JSON.stringify(encodeBlock(before))))).toEqual({ block: before });
      }),
    );
  });

  it('contain one run for an unused block', () => {
    const record = encodeBlock(emptyBlock(parseCidr('10.0.0.0/26'), 'n1' as NodeName));
    expect(record).toEqual({ format: 1, cidr: '10.0.0.0/26', node: 'n1', slots: {}, free: '0-63' });
  });

  it('are refused with problems for arbitrary JSON, without an exception', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (raw) => {
        expect(decodeBlock(raw)).toHaveProperty('problems');
      }),
    );
  });

  const good = { format: 1, cidr: '10.0.0.0/30', node: 'n1', slots: {}, free: '0-3' };
  it.each([
    ['another format', { ...good, format: 2 }, 'format'],
    ['host bits', { ...good, cidr: '10.0.0.1/30' }, 'canonical'],
    ['a giant', { ...good, cidr: '10.0.0.0/8' }, 'too large'],
    ['a run beyond the block', { ...good, free: '0-4' }, 'run of ordinals'],
    ['a run backwards', { ...good, free: '3-0' }, 'run of ordinals'],
    ['words', { ...good, free: 'all' }, 'run of ordinals'],
    ['an ordinal twice', { ...good, free: '0-2,2' }, 'twice'],
    ['too many ordinals', { ...good, free: '0-3,0-3' }, 'more ordinals'],
    ['a lost ordinal', { ...good, free: '0-2' }, 'neither free nor held'],
    ['a slot without a holder', { ...good, slots: { '3': {} }, free: '0-2' }, 'slots.3.id'],
    ['a slot keyed by a word', { ...good, slots: { x: {} } }, 'ordinal'],
  ])('are refused with %s', (_, raw, part) => {
    const decoded = decodeBlock(raw);
    expect('problems' in decoded ? decoded.problems.join('; ') : '').toContain(part);
  });

  it('keep a field of an allocation that a newer release wrote', () => {
    const holder = { id: 'a', handle: 'c/eth0/net', node: 'n1', network: 'net', containerId: 'c', ifName: 'eth0' };
    const slot = { ...holder, at: '2026-01-01T00:00:00Z', chosenBy: 'request', colour: 'blue' };
    const decoded = decodeBlock({ ...good, slots: { '0': slot }, free: '1-3' });
    expect('block' in decoded ? encodeBlock(decoded.block).slots['0'] : undefined).toEqual(slot);
  });
});
