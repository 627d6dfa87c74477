import { freeSlots, takeSlot } from '../../../test/support/block-edits.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { nodeName, poolOf } from '../../../test/support/fixtures.ts';
import { decodePools } from '../choose-pools.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import { handleOf } from '../../model/names.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { attachmentOf } from '../../../test/support/ipam-bench.ts';
import { busyPool } from './busy-pool.ts';
import { Demand } from './demand.ts';
import { PreallocatedAddresses, ownedOrdinals } from './preallocated.ts';
import { planWarmPool } from './plan-warm-pool.ts';

const FLOOR = 8;
const NODE = nodeName('n1');
const CIDR = parseCidr('10.0.0.0/23');
const KEY = formatCidr(CIDR);
const pools = decodePools([{ value: poolOf('v4', '10.0.0.0/16', { blockSize: 23 }), version: '1' }]);
const [pool] = pools;
const allocation: Allocation = {
  ...attachmentOf('c1'),
  id: 'a1',
  handle: handleOf(attachmentOf('c1')),
  node: NODE,
  at: '2026-01-01T00:00:00Z',
  chosenBy: 'node-selector',
};

let demand: Demand;
let own: PreallocatedAddresses;
let block: IpBlock;
beforeEach(() => {
  demand = new Demand(() => FLOOR);
  own = new PreallocatedAddresses('run');
  block = emptyBlock(CIDR, NODE);
});

function start(pods: number, nowMs: number): void {
  for (let pod = 0; pod < pods; pod += 1) demand.record('v4', nowMs);
}

/** Returns the pre-allocated addresses after the agent has adjusted the warm pool. */
function sizeAt(nowMs: number, yielding: readonly string[] = []): number {
  const changed = planWarmPool({
    owns: own.owns,
    blocks: new Map([[KEY, block]]),
    pools,
    reserved: [],
    coolDown: { nowMs, seconds: 30 },
    targets: demand.targets(pools, { own: [block], node: NODE, nowMs }),
    newId: own.newId,
    yielding: new Set(yielding),
    isWritten: () => false,
    isPending: () => false,
    isOrphaned: () => false,
  });
  block = changed.get(KEY)?.block ?? block;
  return ownedOrdinals(block, own.owns).length;
}

describe('the warm pool of an IP pool', () => {
  it('is empty before the first pod start, and has the floor size after it', () => {
    expect(sizeAt(0)).toBe(0);
    start(1, 0);
    expect(sizeAt(0)).toBeGreaterThanOrEqual(FLOOR);
  });

  it('grows with the rate of pod starts, up to a ceiling', () => {
    start(100, 0);
    expect(sizeAt(1000)).toBe(FLOOR + 100);
    start(1000, 2000);
    expect(sizeAt(2000)).toBe(256);
  });

  it('shrinks to the floor when pod starts stop, and to nothing when no pod is left', () => {
    start(100, 0);
    sizeAt(0);
    expect(sizeAt(4999)).toBe(FLOOR + 100);
    expect(sizeAt(5000)).toBe(FLOOR);
    block = takeSlot(block, 500, allocation);
    expect(sizeAt(60_000)).toBe(FLOOR);
    block = emptyBlock(CIDR, NODE);
    expect(sizeAt(60_000)).toBe(0);
  });

  it('is not refilled for a few addresses, and does not grow where other nodes need addresses', () => {
    start(1, 0);
    sizeAt(0);
    const before = block;
    start(4, 1000);
    sizeAt(1000);
    expect(block).toBe(before);
    start(100, 1000);
    sizeAt(1000, ['v4']);
    expect(block).toBe(before);
  });
});

describe('an address that cools down', () => {
  it('is pre-allocated only after its cool-down', () => {
    const used = takeSlot({ ...block, queue: [5, 6, 7] }, 5, allocation);
    block = freeSlots(takeSlot(used, 6, { ...allocation, id: 'a2' }), new Set(['a1', 'a2']), 10);
    start(1, 0);
    expect(sizeAt(11_000)).toBe(1);
    expect([...block.preallocated.keys()]).toEqual([7]);
    start(1, 40_000);
    expect(sizeAt(40_000)).toBe(3);
  });

  it('makes a busy pool claim the next block', () => {
    start(100, 0);
    const ids = Array.from({ length: 470 }, (_, ordinal) => `a${String(ordinal)}`);
    for (const [ordinal, id] of ids.entries()) block = takeSlot(block, ordinal, { ...allocation, id });
    block = freeSlots(block, new Set(ids), 0);
    const busyAt = (nowMs: number): unknown =>
      busyPool(pools, { own: [block], limit: 0, recent: () => 100, coolDown: { nowMs, seconds: 30 } });
    expect(busyAt(1000)).toBe(pool);
    expect(busyAt(31_000)).toBeUndefined();
  });
});

describe('a request of another node', () => {
  it('is removed when a pod of this node has taken the address, also with nothing else pre-allocated', () => {
    block = { ...takeSlot(block, 5, allocation), requested: new Set([5]) };
    expect(sizeAt(60_000, ['v4'])).toBe(0);
    expect(block.requested.size).toBe(0);
  });
});

describe('a block', () => {
  const ahead = (held: number, nowMs: number, limit = 0): string | undefined => {
    for (let ordinal = 0; ordinal < held; ordinal += 1)
      block = takeSlot(block, ordinal, { ...allocation, id: `a${String(ordinal)}` });
    const recent = (name: string): number => demand.recent(name, nowMs);
    return busyPool(pools, { own: [block], limit, recent, coolDown: { nowMs, seconds: 30 } })?.name;
  };

  it('is claimed ahead when pods come so fast that this one will soon be full', () => {
    start(100, 0);
    expect(ahead(461, 0)).toBeUndefined();
    expect(ahead(463, 0)).toBe(pool?.name);
    expect(ahead(463, 0, 1)).toBeUndefined();
    expect(ahead(463, 5000)).toBeUndefined();
  });
});
