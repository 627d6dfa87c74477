import { describe, expect, it } from 'vitest';
import { poolOf } from '../../../test/support/fixtures.ts';
import { DEFAULT_IPAM_CONFIGURATION } from '../../model/ipam-configuration.ts';
import { forecastQuestion } from './forecast-cluster.ts';
import { forecast } from './forecast.ts';

const never = new AbortController().signal;

interface Sized {
  readonly nodes: number;
  readonly cidr: string;
  readonly blockSize: number;
}

/** Processor time of the cheaper of two runs; at the end of each the pool is full, and addresses are missing. */
async function costOf({ nodes, cidr, blockSize }: Sized): Promise<number> {
  const pools = [poolOf('p', cidr, { blockSize })];
  const facts = { pools, reservations: [], config: DEFAULT_IPAM_CONFIGURATION, blocks: [], nodes: [] };
  const question = forecastQuestion(facts, { nodes, podsPerNode: 110, pool: 'p' }, 4);
  if (question === undefined) throw new Error('the pool may be used');
  const costs: number[] = [];
  while (costs.length < 2) {
    const before = process.threadCpuUsage();
    const { failed } = await forecast(question, never);
    expect(failed).toBeGreaterThan(0);
    const { user, system } = process.threadCpuUsage(before);
    costs.push(user + system);
  }
  return Math.min(...costs);
}

describe('the cost of a forecast', { timeout: 240_000 }, () => {
  it('grows with the nodes, and not with their square', async () => {
    const thousand = await costOf({ nodes: 1250, cidr: '10.0.0.0/15', blockSize: 30 });
    const tenThousand = await costOf({ nodes: 10_000, cidr: '10.0.0.0/12', blockSize: 30 });
    expect(tenThousand / thousand).toBeLessThan(15);
  });

  it('grows far less than the number of blocks', async () => {
    const few = await costOf({ nodes: 5000, cidr: '10.0.0.0/13', blockSize: 26 });
    const many = await costOf({ nodes: 5000, cidr: '10.0.0.0/13', blockSize: 31 });
    expect(many / few).toBeLessThan(8);
  });
});
