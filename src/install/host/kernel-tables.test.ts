import { describe, expect, it } from 'vitest';
import {
  findFullTables,
  type FlowTableSize,
  type KernelTables,
  type NeighbourTableSize,
  readStatistics,
} from './kernel-tables.ts';

const flows = (entries: number, dropped?: number): KernelTables => {
  const size: FlowTableSize = { entries, most: 1000, dropped };
  return { flows: size, neighbours: [] };
};
const neighbours = (more: Partial<NeighbourTableSize>): KernelTables => ({
  flows: undefined,
  neighbours: [{ family: 6, entries: 0, most: 1024, collections: 1, refused: 0, ...more }],
});
const codes = (now: KernelTables, before?: KernelTables) => findFullTables(now, before).map(({ code }) => code);

describe('the table of tracked flows', () => {
  it.each([
    [799, []],
    [800, ['kernel/flows-nearly-full']],
    [950, ['kernel/flows-full']],
  ])('with %i of 1000 flows is %j', (entries, found) => {
    expect(codes(flows(entries))).toEqual(found);
  });

  it('is full when the kernel has dropped packets since, while it is nearly full', () => {
    expect(codes(flows(850, 7), flows(900, 7))).toEqual(['kernel/flows-nearly-full']);
    expect(findFullTables(flows(850, 9), flows(900, 7))).toMatchObject([
      {
        code: 'kernel/flows-full',
        found: 'the kernel tracks 850 of at most 1000 flows (nf_conntrack_max), and has dropped 2 packets of new ones',
        command: 'sysctl -w net/netfilter/nf_conntrack_max=2000',
      },
    ]);
    // Flows that clash are dropped as well.
    expect(codes(flows(300, 9), flows(300, 7))).toEqual([]);
  });
});

describe('the table of neighbours', () => {
  it.each([
    [{ entries: 800 }, []],
    [{ entries: 820 }, ['kernel/neighbours-nearly-full']],
    [{ entries: 1000 }, ['kernel/neighbours-full']],
    // Permanent neighbours are counted, and not limited.
    [{ entries: 5000, collections: 0 }, []],
  ])('with %j is %j', (size, found) => {
    expect(codes(neighbours(size))).toEqual(found);
  });

  it('is full when the kernel has refused neighbours since', () => {
    expect(codes(neighbours({ entries: 500, refused: 3 }))).toEqual([]);
    expect(findFullTables(neighbours({ entries: 500, refused: 5 }), neighbours({ refused: 3 }))).toMatchObject([
      {
        code: 'kernel/neighbours-full',
        found: 'the kernel has 500 IPv6 neighbours of at most 1024 (gc_thresh3), and has refused 2 more',
        command: 'sysctl -w net/ipv6/neigh/default/gc_thresh3=4096 net/ipv6/neigh/default/gc_thresh2=2048',
      },
    ]);
  });
});

describe('statistics of the kernel', () => {
  it('are totals of all processors, except for the number of entries', () => {
    const text = 'entries  drop insert_failed\n0000000a  00000001 00000000\n0000000a  0000000f 00000002\n';
    expect([...readStatistics(text)]).toEqual([
      ['entries', 10],
      ['drop', 16],
      ['insert_failed', 2],
    ]);
    expect(readStatistics('').get('entries')).toBeUndefined();
  });
});
