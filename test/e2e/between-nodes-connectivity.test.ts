// Who reaches whom, in every mode that this kernel has.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricPod, startFabric } from '../support/fabric.ts';
import { addressesOf, pairsOf, receiveInside, transfer, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const FAMILIES = ['ipv4', 'ipv6'] as const;
/** Devices by which n1 sends, in IPv4 and IPv6. */
const VXLAN = ['vxlan.netplug', 'vxlan6.netplug'];
const DIRECT = ['eth0', 'eth0'];
const LINK_MTU = 9000;
/** What the dearest tunnel takes of it. */
const LEAST_MTU = LINK_MTU - 70;

describe.each([
  { name: 'VXLAN', vxlanMode: 'Always', isNearInside: true, isFarInside: true, sessions: 0 },
  { name: 'VXLAN across subnets', vxlanMode: 'CrossSubnet', isNearInside: false, isFarInside: true, sessions: 0 },
  { name: 'BGP', vxlanMode: 'Never', isNearInside: false, isFarInside: false, sessions: 4 },
])('pods of three nodes, by $name', ({ name, vxlanMode, isNearInside, isFarInside, sessions }) => {
  let fabric: Fabric;
  let pods: FabricPod[];
  beforeAll(async () => {
    fabric = await startFabric({ mtu: LINK_MTU });
    await fabric.setPools({ vxlanMode, natOutgoing: true });
    await fabric.startAgents();
    pods = [];
    for (const node of ['n1', 'n1', 'n2', 'n3']) pods.push(await fabric.node(node).pod());
    // BGP tells nodes where pods are; a router between them has to know as well.
    if (name === 'BGP') for (const pod of pods) await fabric.routeTo(pod);
    await expectReached(pairsOf(pods), () => fabric.logs());
  });
  afterAll(async () => fabric?.[Symbol.asyncDispose]());

  it('reach each other with packets of the full MTU, which is large', async () => {
    for (const pod of pods) {
      const [link] = await pod.netns.ip('link', 'show', 'dev', 'eth0');
      expect(link?.['mtu']).toBeGreaterThanOrEqual(LEAST_MTU);
      const pairs = pods.filter((to) => to !== pod).map((to) => ({ from: pod, to }));
      await expectReached(pairs, undefined, Number(link?.['mtu']));
    }
  });

  it('reach every node, and are reached from every node', async () => {
    const there = pods.flatMap((from) => fabric.nodes.map((to) => ({ from, to })));
    const back = fabric.nodes.flatMap((from) => pods.map((to) => ({ from, to })));
    await expectReached(there);
    await expectReached(back);
  });

  it.each([1400, 8900, 1_000_000])('exchange %d bytes over TCP, seen with their own addresses', async (bytes) => {
    using servers = new DisposableStack();
    for (const pod of pods) servers.use(await receiveInside(pod));
    for (const { from, to } of pairsOf(pods)) {
      for (const family of FAMILIES) {
        const answer = await transfer(from, to.addresses[family], bytes);
        expect(answer).toEqual({ isIntact: true, seenFrom: from.addresses[family] });
      }
    }
  });

  it('use the path of their mode, to neighbours and to the other subnet', async () => {
    const [n1, [, , near, far]] = [fabric.node('n1'), pods];
    const ways = [...addressesOf(near!), ...addressesOf(far!)].map(async (address) => n1.wayTo(address));
    expect(await Promise.all(ways)).toEqual([...(isNearInside ? VXLAN : DIRECT), ...(isFarInside ? VXLAN : DIRECT)]);
    const links = await n1.netns.ip('link', 'show', 'type', 'vxlan');
    expect(links.map(({ ifname }) => String(ifname)).toSorted()).toEqual(isFarInside ? VXLAN : []);
  });

  it('have a network that netplugctl node status describes', async () => {
    const n1 = fabric.node('n1');
    expect(await n1.nodeStatus()).toContain(n1.addresses.ipv4);
    let status = '';
    // Two nodes that call each other at once try again.
    await until(
      async () => (status = await n1.nodeStatus()).split('\n').filter(isEstablished).length === sessions,
      () => `there are ${String(sessions)} sessions; it says:\n${status}\n${fabric.logs()}`,
    );
  });

  it('reach the outside with the address of their node, or their own without natOutgoing', async () => {
    using _ = await receiveInside(fabric.world);
    for (const pod of pods) {
      for (const family of FAMILIES) {
        const { seenFrom } = await transfer(pod, fabric.world.addresses[family], 1400);
        expect(seenFrom).toBe(fabric.node(pod.node).addresses[family]);
      }
    }
    for (const pod of pods) await fabric.routeTo(pod);
    await fabric.setPools({ vxlanMode, natOutgoing: false });
    for (const pod of pods) {
      for (const family of FAMILIES) {
        let seenFrom = '';
        await until(
          async () =>
            ({ seenFrom } = await transfer(pod, fabric.world.addresses[family], 1400)).seenFrom ===
            pod.addresses[family],
          () => `${pod.name} is seen with its own address; it is seen as ${seenFrom}`,
        );
      }
    }
    await expectReached(pods.map((to) => ({ from: fabric.world, to })));
  });
});

function isEstablished(line: string): boolean {
  return line.includes('Established');
}
