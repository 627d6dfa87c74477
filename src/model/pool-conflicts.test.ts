import { describe, expect, it } from 'vitest';
import { decodeResource } from './decode-resource.ts';
import type { IpPool } from './ip-pool.ts';
import { poolProblems } from './pool-conflicts.ts';
import { API_VERSION } from './resource.ts';

function pool(name: string, cidr: string, blockSize?: number): IpPool {
  const spec = blockSize === undefined ? { cidr } : { cidr, blockSize };
  const decoded = decodeResource({ apiVersion: API_VERSION, kind: 'IPPool', metadata: { name }, spec });
  if ('problems' in decoded || decoded.resource.kind !== 'IPPool') throw new Error('not a pool');
  return decoded.resource;
}

describe('a pool beside other pools', () => {
  it('may not overlap one of them [pool-cidr]', () => {
    const others = [pool('blue', '10.0.0.0/16'), pool('six', 'fd00::/64')];
    expect(poolProblems(pool('green', '10.0.128.0/17'), others)).toMatchObject([
      { path: 'spec.cidr', message: '10.0.128.0/17 overlaps 10.0.0.0/16 of pool "blue"' },
    ]);
    expect(poolProblems(pool('green', '10.1.0.0/16'), others)).toEqual([]);
  });

  it('does not overlap itself', () => {
    const green = pool('green', '10.0.0.0/16');
    expect(poolProblems(green, [green], green)).toEqual([]);
  });

  it('keeps its CIDR and block size [pool-cidr]', () => {
    const problems = poolProblems(pool('green', '10.1.0.0/16', 28), [], pool('green', '10.0.0.0/16'));
    expect(problems.map(({ path }) => path)).toEqual(['spec.cidr', 'spec.blockSize']);
  });
});
