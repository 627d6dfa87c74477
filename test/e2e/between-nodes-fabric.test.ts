// The test bed of the other between-nodes tests: what it shows while no agent routes, and that it notices losses.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricPod, startFabric } from '../support/fabric.ts';
import { startFlow } from '../support/traffic-flow.ts';
import { pairsOf, pingAll, pingOnce, receiveInside, transfer, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

let fabric: Fabric;
let pods: FabricPod[];
beforeAll(async () => {
  fabric = await startFabric({ mtu: 9000 });
  await fabric.setPools({});
  pods = [await fabric.node('n1').pod(), await fabric.node('n1').pod(), await fabric.node('n2').pod()];
});
afterAll(async () => fabric[Symbol.asyncDispose]());

describe('a fabric without agents', () => {
  it('connects nodes and the outside host with full-size packets', async () => {
    await expectReached(pairsOf([...fabric.nodes, fabric.world]), undefined, 9000);
    expect(await pingAll([{ from: fabric.node('n1'), to: fabric.node('n3') }], 9001)).toHaveLength(2);
  });

  it('connects pods of one node, but not those of different nodes', async () => {
    await expectReached(pairsOf(pods.slice(0, 2)));
    expect(await pingAll(pairsOf(pods.slice(1)))).toHaveLength(4);
  });

  it('reports which packets arrived, with their source', async () => {
    const [n1, { world }] = [fabric.node('n1'), fabric];
    using _ = await receiveInside(world);
    for (const family of ['ipv4', 'ipv6'] as const) {
      const answer = await transfer(n1, world.addresses[family], 100_000);
      expect(answer).toEqual({ isIntact: true, seenFrom: n1.addresses[family] });
    }
    await expect(transfer(pods[0]!, world.addresses.ipv4, 1)).rejects.toThrow('no connection');
  });

  it('counts what a flow loses, to the packet', async () => {
    const [n1, n3] = [fabric.node('n1'), fabric.node('n3')];
    const [whole, holed] = [await startFlow(n1, n3.addresses.ipv6), await startFlow(n1, n3.addresses.ipv4)];
    const rule = ['from', n1.addresses.ipv4, 'to', n3.addresses.ipv4, 'unreachable'];
    await new Promise((done) => setTimeout(done, 500));
    await fabric.router.exec('ip', 'rule', 'add', ...rule);
    await new Promise((done) => setTimeout(done, 500));
    await fabric.router.exec('ip', 'rule', 'delete', ...rule);
    await until(async () => (await pingOnce(n1.netns, n3.addresses.ipv4)) === undefined, 'packets get through again');
    await new Promise((done) => setTimeout(done, 200));
    expect(await whole.stop()).toMatchObject({ lost: 0, longestGapMs: 0, complaints: [] });
    const { sent, lost, longestGapMs } = await holed.stop();
    expect(lost).toBeGreaterThan(10);
    expect(lost).toBeLessThan(sent - 20);
    expect(longestGapMs).toBe(lost * 20);
  });
});
