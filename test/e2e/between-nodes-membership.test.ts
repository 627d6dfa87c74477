// Nodes come and go.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricNode, type FabricPod, startFabric } from '../support/fabric.ts';
import { addSimulatedNodes } from '../support/fabric-simulated-nodes.ts';
import { pairsOf, expectReached } from '../support/traffic.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const ADDED = 20;

let fabric: Fabric;
let pods: Record<string, FabricPod>;
beforeAll(async () => {
  fabric = await startFabric();
  await fabric.setPools({ vxlanMode: 'Always' });
  await fabric.startAgents();
  pods = Object.fromEntries((await fabric.podOnEach()).map((pod) => [pod.node, pod]));
  await expectReached(pairsOf(Object.values(pods)), () => fabric.logs());
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

/** CIDRs of the blocks it owns. */
const ownBlocks = async (name: string): Promise<string[]> =>
  [...(await fabric.store.records(`ipam/blocks/${name}/`)).values()].map(({ cidr }) => String(cidr));
const specOf = async (name: string): Promise<unknown> =>
  [...(await fabric.store.records(`resources/nodes/${name}`)).values()][0]?.spec;

describe('a node', () => {
  it('that joins many nodes causes only the changes for its own routes on them', async () => {
    const n1 = fabric.node('n1');
    await addSimulatedNodes(fabric, ADDED);
    const before = await countOf(n1, 'netplug_routes{hop="tunnelled"}', (count) => count >= ADDED);
    let comparisons = -1;
    const isSettled = async (): Promise<boolean> => {
      const before = comparisons;
      return (comparisons = await gaugeOf(n1, 'netplug_route_comparisons_total')) === before;
    };
    await until(isSettled, 'its work for the added nodes is done', PATIENCE_MS, 2000);
    const monitor = await n1.machine.start(['ip', '-ts', 'monitor', 'route', 'neigh']);
    const n4 = await fabric.addNode('n4');
    await n4.startAgent();
    pods['n4'] = await n4.pod();
    await expectReached(pairsOf([pods['n1']!, pods['n4']]));
    const blocks = (await ownBlocks('n4')).length;
    expect(blocks).toBe(2);
    await countOf(n1, 'netplug_routes{hop="tunnelled"}', (count) => count === before + blocks);
    await monitor.stop();
    const own = monitor
      .log()
      .split('\n')
      .filter((line) => /proto 118|dev vxlan6?\.netplug/.test(line));
    expect(own.length).toBeGreaterThan(0);
    expect(own.slice(2 * blocks + 4)).toEqual([]);
    expect(await gaugeOf(n1, 'netplug_route_comparisons_total')).toBe(comparisons);
  });

  it('that was powered off returns with its tunnel address, and runs pods', async () => {
    const before = await specOf('n2');
    expect(before).toMatchObject({ ipv4VXLANTunnelAddr: expect.any(String), ipv6VXLANTunnelAddr: expect.any(String) });
    await fabric.node('n2')[Symbol.asyncDispose]();
    const n2 = await fabric.addNode('n2');
    await n2.startAgent();
    await until(
      async () => isDeepStrictEqual(await specOf('n2'), before),
      () => `n2 says of itself what it said before; it says:\n${n2.agent().log()}`,
    );
    pods['n2'] = await n2.pod();
    await expectReached(pairsOf(Object.values(pods)));
    await expectReached(pairsOf([n2, pods['n3']!]));
  });

  it('that is removed releases its blocks, and its routes are removed', async () => {
    const { n3: gone, ...others } = pods;
    const blocks = await ownBlocks('n3');
    expect(blocks).toHaveLength(2);
    const left = async (): Promise<string[]> =>
      (await Promise.all(['n1', 'n2'].map(async (name) => fabric.node(name).routes())))
        .flat()
        .flatMap(({ dst }) => (blocks.includes(dst) ? [String(dst)] : []));
    expect(await left()).toHaveLength(2 * blocks.length);
    await fabric.node('n3')[Symbol.asyncDispose]();
    expect(await fabric.netplugctl(['node', 'remove', 'n3'])).toMatchObject({ status: 0 });
    expect(await ownBlocks('n3')).toEqual([]);
    expect(await specOf('n3')).toBeUndefined();
    expect(await fabric.store.heldAddresses()).not.toContain(gone!.addresses.ipv4);
    await until(async () => (await left()).length === 0, 'its routes go');
    await expectReached(pairsOf(Object.values(others)));
  });

  it('is refused with the address of another node, and reports both names', async () => {
    const [n1, n5] = [fabric.node('n1'), await fabric.addNode('n5')];
    const { ipv4 } = n1.addresses;
    const script = `ip link add name twin type veth peer name other; ip link set dev other up; ip address add ${ipv4}/32 dev twin; ip link set dev twin up`;
    await n5.machine.exec('sh', '-ec', script);
    const agent = await n5.launchAgent({ NETPLUG_IP: 'interface=^twin$' });
    await until(
      () => agent.log().includes('code: '),
      () => `it gives up; it says:\n${agent.log()}`,
    );
    const [status] = (await agent.ended) as [number];
    expect(status).not.toBe(0);
    expect(agent.log()).toContain('code: agent/address-conflict');
    for (const word of ['"n1"', '"n5"', ipv4]) expect(agent.log()).toContain(word);
    expect(await specOf('n5')).not.toMatchObject({ bgp: { ipv4Address: expect.anything() } });
  });
});

async function gaugeOf(node: FabricNode, name: string): Promise<number> {
  const { body } = await node.agent().ask('/metrics');
  return Number(
    body
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length),
  );
}

/** Waits until the gauge is as it shall be. */
async function countOf(node: FabricNode, name: string, isRight: (count: number) => boolean): Promise<number> {
  let count = 0;
  await until(
    async () => isRight((count = await gaugeOf(node, name))),
    () => `${name} is right; it is ${String(count)}`,
  );
  return count;
}
