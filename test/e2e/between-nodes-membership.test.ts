// Nodes come and go.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricNode, type FabricPod, startFabric } from '../support/fabric.ts';
import { addSimulatedNodes } from '../support/fabric-simulated-nodes.ts';
import type { LanAddresses } from '../support/lan.ts';
import { pairsOf, expectReached } from '../support/traffic.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const ADDED = 20;
/** Of no node. */
const VIP: LanAddresses = { ipv4: '192.0.2.200', ipv6: 'fd00:a::200' };

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

  it('that has exchanged addresses with another one, while both run and while both are down, takes its own, and no VIP', async () => {
    const [n1, n2] = [fabric.node('n1'), fabric.node('n2')];
    const left = ['n1', 'n2', 'n4'].map((name) => pods[name]!);
    await Promise.all([readdress(n1, n2.addresses), readdress(n2, n1.addresses)]);
    await publish([n1, n2.addresses], [n2, n1.addresses]);
    await expectReached(pairsOf(left), () => fabric.logs());
    await Promise.all([n1, n2].map(async (node) => node.agent().stop('KILL')));
    await Promise.all([n1, n2].map(async (node) => readdress(node, node.addresses, VIP)));
    await Promise.all([n1, n2].map(async (node) => node.startAgent()));
    await publish([n1, n1.addresses], [n2, n2.addresses]);
    await expectReached(pairsOf(left), () => fabric.logs());
  });

  it('does not take the address of another node, and reports both names until it is another one', async () => {
    const [n1, n5] = [fabric.node('n1'), await fabric.addNode('n5')];
    const { ipv4 } = n1.addresses;
    const script = `ip link add name twin type veth peer name other; ip link set dev other up; ip address add ${ipv4}/32 dev twin; ip link set dev twin up`;
    await n5.machine.exec('sh', '-ec', script);
    const agent = await n5.launchAgent({ NETPLUG_IP: 'interface=^twin$' });
    await until(
      () => agent.log().includes('address contested'),
      () => `it says so; it says:\n${agent.log()}`,
    );
    const { body } = await agent.ask('/readyz');
    for (const word of ['"n1"', '"n5"', ipv4, 'NETPLUG_IP, for example "interface=^eth0$"'])
      expect(body).toContain(word);
    expect(await specOf('n5')).not.toMatchObject({ bgp: { ipv4Address: expect.anything() } });
    await n5.machine.exec('ip', 'address', 'add', '192.0.2.99/32', 'dev', 'twin');
    await n5.machine.exec('ip', 'address', 'delete', `${ipv4}/32`, 'dev', 'twin');
    await agent.ready();
    await expectReached(pairsOf([n1, pods['n2']!]));
  });
});

/** Gives the link of the node these addresses in place of all others, behind one without a network in each family. */
async function readdress(node: FabricNode, { ipv4, ipv6 }: LanAddresses, vip?: LanAddresses): Promise<void> {
  const commands = [
    'ip address flush dev eth0 scope global',
    ...(vip === undefined ? [] : [`ip address add ${vip.ipv4}/32 dev eth0`]),
    `ip address add ${ipv4}/24 dev eth0`,
    // The kernel lists the newest address of IPv6 first.
    `ip address add ${ipv6}/64 dev eth0 nodad`,
    ...(vip === undefined ? [] : [`ip address add ${vip.ipv6}/128 dev eth0 nodad`]),
    'ip route replace default via 192.0.2.1',
    'ip -6 route replace default via fd00:a::1',
  ];
  await node.machine.exec('sh', '-ec', commands.join('\n'));
}

/** Waits until each node publishes these addresses. */
async function publish(...expected: readonly (readonly [FabricNode, LanAddresses])[]): Promise<void> {
  for (const netns of [fabric.router, ...expected.map(([node]) => node.netns), fabric.node('n4').netns])
    await netns.exec('ip', 'neigh', 'flush', 'nud', 'reachable', 'nud', 'stale', 'nud', 'delay', 'nud', 'probe');
  for (const [{ name }, { ipv4, ipv6 }] of expected) {
    const bgp = { ipv4Address: `${ipv4}/24`, ipv6Address: `${ipv6}/64` };
    await until(
      async () => isDeepStrictEqual(((await specOf(name)) as { bgp?: unknown }).bgp, bgp),
      () => `${name} publishes ${ipv4}\n${fabric.logs()}`,
    );
  }
}

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
