import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ipamConfigurationOf, nodeName, nodeOf, poolOf, reservationOf } from '../../../test/support/fixtures.ts';
import { attachmentOf } from '../../../test/support/ipam-bench.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../model/ip-block.ts';
import { handleOf } from '../../model/names.ts';
import { parseCidr } from '../../net/cidr.ts';
import type { ForecastFacts } from './forecast-cluster.ts';
import { PoolGrowth } from './pool-growth.ts';
import { poolOutlooks, shortagesOfNextDay } from './pool-outlook.ts';

const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

/** A pool of 256 addresses of which the node holds so many. */
function clusterWith(held: number, more: Partial<ForecastFacts> = {}): ForecastFacts {
  const blocks = Array.from({ length: Math.ceil(held / 64) }, (_, index): IpBlock => {
    const { queue, ...block } = emptyBlock(parseCidr(`10.0.0.${String(index * 64)}/26`), nodeName('n1'));
    const count = Math.min(64, held - index * 64);
    const taken = queue
      .slice(0, count)
      .map((ordinal) => [ordinal, allocationOf(`${String(index)}-${String(ordinal)}`)] as const);
    return { ...block, slots: new Map(taken), queue: queue.slice(count) };
  });
  const { spec: config } = ipamConfigurationOf({});
  return { pools: [poolOf('p', '10.0.0.0/24')], reservations: [], nodes: [nodeOf('n1')], config, blocks, ...more };
}

function allocationOf(id: string): Allocation {
  const attachment = attachmentOf(id);
  const holder = { node: nodeName('n1'), handle: handleOf(attachment), ...attachment };
  return { id, ...holder, at: '2026-01-01T00:00:00Z', chosenBy: 'node-selector' };
}

/** Observes a pool that has so many addresses in use, hour by hour. */
function observed(counts: readonly number[], more: Partial<ForecastFacts> = {}) {
  const growth = new PoolGrowth();
  let last = poolOutlooks(clusterWith(counts[0] ?? 0, more), growth, 0);
  for (const [hour, count] of counts.slice(1).entries())
    last = poolOutlooks(clusterWith(count, more), growth, (hour + 1) * HOUR_MS);
  return { growth, outlook: last[0], facts: clusterWith(counts.at(-1) ?? 0, more) };
}

describe('the outlook of a pool', () => {
  it('names the day of a growing pool, before it is full', () => {
    const { outlook } = observed([100, 102, 104, 106]);
    expect(outlook).toEqual({ name: 'p', addresses: 256n, free: 150n, fullInDays: 150 / 48, isReported: false });
    const { outlook: faster } = observed([100, 104, 108, 112]);
    expect(faster?.fullInDays).toBeCloseTo(144 / 96);
    expect(faster?.isReported).toBe(true);
  });

  it('says nothing of a day within the first hour, without growth, and when the use decreases', () => {
    expect(observed([200]).outlook).toMatchObject({ free: 56n, fullInDays: undefined, isReported: false });
    expect(observed([200, 200, 200]).outlook).toMatchObject({ fullInDays: undefined, isReported: false });
    expect(observed([200, 180, 160]).outlook).toMatchObject({ fullInDays: undefined, isReported: false });
  });

  it('reports a pool with few addresses left, whatever its growth, and not a disabled one', () => {
    expect(observed([231]).outlook).toMatchObject({ free: 25n, isReported: true });
    expect(observed([256]).outlook).toMatchObject({ free: 0n, fullInDays: 0, isReported: true });
    expect(observed([256], { pools: [poolOf('p', '10.0.0.0/24', { disabled: true })] }).outlook).toBeUndefined();
    const reservations = [reservationOf('r', ['10.0.0.128/25'])];
    expect(observed([120], { reservations }).outlook).toMatchObject({ free: 8n, isReported: true });
  });

  it('forgets growth that is older than a day', () => {
    const counts = [...Array.from({ length: 20 }, (_, hour) => hour * 5), ...Array.from({ length: 30 }, () => 95)];
    expect(observed(counts).outlook).toMatchObject({ fullInDays: undefined, isReported: false });
  });

  it('has a day exactly if the use grew, and then a later one', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 2, maxLength: 24 }), (counts) => {
        const { outlook, growth } = observed(counts);
        const perDay = growth.perDay('p');
        expect(outlook?.fullInDays === undefined).toBe((perDay ?? 0) <= 0);
        expect(outlook?.fullInDays ?? 1).toBeGreaterThan(0);
      }),
    );
  });
});

describe('the shortage of the next day', () => {
  it('is what the forecast of the address manager says of the growth of the last day', async () => {
    const { growth, facts } = observed([10, 20, 30, 40]);
    expect(await shortagesOfNextDay(facts, growth, never)).toEqual([
      { family: 4, wanted: 240, missing: 24, node: 'n1' },
    ]);
    const { growth: slow, facts: calm } = observed([10, 12, 14, 16]);
    expect(await shortagesOfNextDay(calm, slow, never)).toEqual([]);
  });

  it('counts addresses that exist, but in blocks that a node may not use', async () => {
    const { spec: config } = ipamConfigurationOf({ maxBlocksPerNode: 1, strictAffinity: true });
    const { growth, facts } = observed([10, 12, 14, 16], { config });
    expect(await shortagesOfNextDay(facts, growth, never)).toEqual([]);
    const { growth: faster, facts: later } = observed([10, 13, 16, 19], { config });
    expect(await shortagesOfNextDay(later, faster, never)).toEqual([
      { family: 4, wanted: 72, missing: 27, node: 'n1' },
    ]);
  });
});
