import { describe, expect, it } from 'vitest';
import { type Cidr, formatCidr, parseCidr } from '../net/cidr.ts';
import { nodeName, poolOf } from '../../test/support/fixtures.ts';
import { decodePools, type Pool } from './choose-pools.ts';
import { freeCidrs, overlapsOneOf } from './free-cidrs.ts';

const NODES = Array.from({ length: 8 }, (_, index) => nodeName(`n${String(index)}`));

function pool(cidr: string, blockSize: number): Pool {
  const [decoded] = decodePools([{ value: poolOf('p', cidr, { blockSize }), version: '1' }]);
  return decoded!;
}

function free(of: Pool, reserved: readonly string[], claimed: readonly string[] = []): string[][] {
  const isClaimed = overlapsOneOf(claimed.map(parseCidr));
  const first = function* (cidrs: Iterable<Cidr>): Generator<string> {
    let left = 20;
    for (const cidr of cidrs)
      if ((left -= 1) >= 0) yield formatCidr(cidr);
      else return;
  };
  return NODES.map((node) => [...first(freeCidrs(of, { isClaimed, reserved: reserved.map(parseCidr), node }))]);
}

describe('the free blocks of a pool', () => {
  it('are all blocks that are neither claimed nor reserved, for each node', () => {
    const places = free(pool('10.0.0.0/28', 30), ['10.0.0.4/30'], ['10.0.0.12/30']);
    for (const cidrs of places) expect(cidrs.sort()).toEqual(['10.0.0.0/30', '10.0.0.8/30']);
  });

  it('are found beside reservations of 2^57 blocks', () => {
    const large = pool('fd00::/64', 122);
    for (const cidrs of free(large, ['fd00::/65'])) {
      expect(cidrs).toHaveLength(20);
      for (const cidr of cidrs) expect(cidr).toMatch(/^fd00::[8-f]\w{3}:/);
    }
    expect(free(large, ['fd00::/64'])).toEqual(NODES.map(() => []));
    expect(free(large, ['fd00::/16'])).toEqual(NODES.map(() => []));
    expect(free(large, ['fd00::/65', 'fd00:0:0:0:8000::/65'])).toEqual(NODES.map(() => []));
  });
});
