import { beforeEach, describe, expect, it } from 'vitest';
import { freeSlots, takeSlot } from '../../../test/support/block-edits.ts';
import { nodeName } from '../../../test/support/fixtures.ts';
import { attachmentOf } from '../../../test/support/ipam-bench.ts';
import { systemClock } from '../../base/clock.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import { emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import { DEFAULT_IPAM_CONFIGURATION } from '../../model/ipam-configuration.ts';
import { handleOf } from '../../model/names.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { WarmPool, type WarmPoolPorts } from './warm-pool.ts';

const NODE = nodeName('n1');
const CIDR = parseCidr('10.0.0.0/30');
const KEY = formatCidr(CIDR);

describe('a block of whose addresses one cools down', () => {
  let wallMs: number;
  let monotonicMs: number;
  let written: Change[];
  let pool: WarmPool;

  beforeEach(() => {
    [wallMs, monotonicMs, written] = [Date.parse('2026-01-01T00:00:00Z'), 0, []];
    const held = takeSlot(emptyBlock(CIDR, NODE), 0, {
      ...attachmentOf('c1'),
      id: 'a1',
      handle: handleOf(attachmentOf('c1')),
      node: NODE,
      at: '2026-01-01T00:00:00Z',
      chosenBy: 'netconf',
    });
    const block: IpBlock = freeSlots(held, new Set(['a1']), wallMs / 1000);
    const ports = {
      clock: { ...systemClock, now: () => wallMs, monotonic: () => monotonicMs },
      graceMs: () => 0,
      otherRuns: { ended: () => new Set() },
      view: { ownBlocks: () => new Map([[KEY, block]]) },
      cache: {
        settings: { config: DEFAULT_IPAM_CONFIGURATION },
        isLocked: false,
        pools: [],
        blocks: new Map([[KEY, { value: block, version: '1' }]]),
        poolOf: () => undefined,
      },
      write: async (change: Change) => Promise.resolve(written.push(change)),
    };
    // What the two questions below do not touch is left out.
    pool = new WarmPool(ports as unknown as WarmPoolPorts, { node: NODE, warmPoolFloor: () => 4 });
  });

  it('makes the warm pool look again once the cool-down is over', () => {
    pool.hasAged();
    expect(pool.hasAged()).toBe(false);
    wallMs += 30_000;
    expect(pool.hasAged()).toBe(true);
    expect(pool.hasAged()).toBe(false);
  });

  it('is given back only after that, however long it has been empty', async () => {
    await pool.returnIdle();
    monotonicMs += 600_000;
    await pool.returnIdle();
    expect(written).toEqual([]);
    wallMs += 30_000;
    await pool.returnIdle();
    expect(written.map(({ kind }) => kind)).toEqual(['delete-block']);
  });
});
