import { describe, expect, it } from 'vitest';
import { ipamConfigurationOf, nodeName, poolOf } from '../../test/support/fixtures.ts';
import { IpamBench } from '../../test/support/ipam-bench.ts';
import type { IpamConfigurationSpec } from '../model/ipam-configuration.ts';
import { release } from './release.ts';

/** Blocks of four addresses, whose clock stands still until a test turns it on. */
async function benchOf(cidr: string, config: Partial<IpamConfigurationSpec> = {}): Promise<IpamBench> {
  const ipam = await IpamBench.with(poolOf('v4', cidr, { blockSize: 30 }), ipamConfigurationOf(config));
  const startMs = ipam.nowMs();
  ipam.nowMs = () => startMs;
  return ipam;
}

function pass(ipam: IpamBench, seconds: number): void {
  const nowMs = ipam.nowMs() + seconds * 1000;
  ipam.nowMs = () => nowMs;
}

/** Fills a block with the pods a to d, which then leave it, a second apart. */
async function useBlock(ipam: IpamBench): Promise<readonly string[]> {
  const pods = ['a', 'b', 'c', 'd'];
  const used: string[] = [];
  for (const pod of pods) used.push(...(await ipam.addresses(pod, { pod })));
  for (const pod of pods) {
    await ipam.release(pod);
    pass(ipam, 1);
  }
  return used;
}

describe('an address that was released', () => {
  it('is given to another pod after the cool-down, and until then the node claims another block', async () => {
    const ipam = await benchOf('10.0.0.0/24');
    const used = await useBlock(ipam);
    expect(used).not.toContain((await ipam.addresses('e', { pod: 'e' }))[0]);
    expect(ipam.database.state().blocks.size).toBe(2);
    pass(ipam, 30);
    expect(await ipam.addresses('f', { pod: 'f' })).toEqual([used[0]]);
  });

  it('is given at once to the same pod, also on another container, and to a pod that asks for it', async () => {
    const ipam = await benchOf('10.0.0.0/24');
    const used = await useBlock(ipam);
    expect(await ipam.addresses('c2', { pod: 'c' })).toEqual([used[2]]);
    expect(await ipam.addresses('f', { pod: 'f', ip: used[1] ?? '' })).toEqual([used[1]]);
    expect(ipam.database.state().blocks.size).toBe(1);
  });

  it('is given at once to the same attachment where no pod is known', async () => {
    const ipam = await benchOf('10.0.0.0/30');
    const [address] = await ipam.addresses('a');
    for (const container of ['b', 'c', 'd']) await ipam.assign(container);
    await ipam.release('b');
    await ipam.release('a');
    expect(await ipam.addresses('a')).toEqual([address]);
  });

  it.each<[string, string, Partial<IpamConfigurationSpec>]>([
    ['the pool has no other', '10.0.0.0/30', {}],
    ['the node may claim no more blocks', '10.0.0.0/24', { maxBlocksPerNode: 1 }],
    ['the node may use no block of another', '10.0.0.0/30', { strictAffinity: true }],
  ])('is given before the cool-down is over when %s: the one that was released first', async (_, cidr, config) => {
    const ipam = await benchOf(cidr, config);
    const used = await useBlock(ipam);
    for (const [index, pod] of ['e', 'f', 'g', 'h'].entries()) {
      expect(await ipam.addresses(pod, { pod })).toEqual([used[index]]);
    }
  });

  it.each([
    [0, 7],
    [7, 0],
  ])(
    'is given, of two full blocks, from the one whose address was released first: pods %i and %i',
    async (first, second) => {
      const ipam = await benchOf('10.0.0.0/29');
      const given: string[] = [];
      for (const pod of Array.from({ length: 8 }, (_, index) => `pod-${String(index)}`))
        given.push(...(await ipam.addresses(pod, { pod })));
      await ipam.release(`pod-${String(first)}`);
      pass(ipam, 1);
      await ipam.release(`pod-${String(second)}`);
      expect(await ipam.addresses('other', { pod: 'other' })).toEqual([given[first]]);
    },
  );

  it('is given at once where the cool-down is off', async () => {
    const ipam = await benchOf('10.0.0.0/24', { cooldownSeconds: 0 });
    const used = await useBlock(ipam);
    expect(await ipam.addresses('e', { pod: 'e' })).toEqual([used[0]]);
  });

  it('is given at once where its ADD had failed', async () => {
    const ipam = await benchOf('10.0.0.0/24');
    const pods = ['a', 'b', 'c', 'd'];
    for (const pod of pods) await ipam.assign(pod, { pod });
    const undo = { node: nodeName('n1'), which: () => true, isUndo: true };
    expect(await release(ipam.ports(), undo, ipam.signal)).toHaveLength(4);
    await ipam.assign('e', { pod: 'e' });
    expect(ipam.database.state().blocks.size).toBe(1);
  });

  it('cools down with its block, when another node takes it over or borrows of it', async () => {
    const ipam = await benchOf('10.0.0.0/30', { maxBlocksPerNode: 1 });
    const used: string[] = [];
    for (const pod of ['a', 'b', 'c']) used.push(...(await ipam.addresses(pod, { pod })));
    for (const pod of ['b', 'c']) await ipam.release(pod);
    const [borrowed] = await ipam.addresses('x', { node: 'n2', pod: 'x' });
    expect(used).not.toContain(borrowed);
    await ipam.release('x', 'n2');
    await ipam.release('a');
    // All four were used, and b's was released first.
    expect(await ipam.addresses('c2', { node: 'n3', pod: 'c' })).toEqual([used[2]]);
    expect(await ipam.addresses('y', { node: 'n3', pod: 'y' })).toEqual([used[1]]);
  });
});
