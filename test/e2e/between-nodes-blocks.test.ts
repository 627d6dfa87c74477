// Routes follow single addresses and blocks to the nodes that have them.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fabric, type FabricPod, resourceOf, startFabric } from '../support/fabric.ts';
import { pairsOf, pingOnce, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const IPV4_ONLY = { assign_ipv6: 'false' };
const TINY = '10.66.0.0/28';

let fabric: Fabric;
/** Where tunnel addresses come from, so that blocks of the pods' pool can be empty. */
const tunnels = resourceOf('IPPool', 'tunnels', { cidr: '10.67.0.0/24', vxlanMode: 'Always', allowedUses: ['Tunnel'] });
const poolOf = (blockSize: number): object =>
  resourceOf('IPPool', 'tiny', { cidr: TINY, blockSize, vxlanMode: 'Always', allowedUses: ['Workload'] });
beforeEach(async () => {
  fabric = await startFabric();
});
afterEach(async () => fabric[Symbol.asyncDispose]());

const podOn = async (name: string): Promise<FabricPod> => fabric.node(name).pod(IPV4_ONLY);
/** The node's route for exactly that, as `<gateway> <device>` or its type. */
const routeOn = async (name: string, destination: string): Promise<string> => {
  const route = (await fabric.node(name).routes()).find(({ dst }) => dst === destination);
  if (route === undefined) return '';
  return route.type ?? `${route.gateway} ${route.dev}`;
};
const tunnelOf = async (name: string): Promise<string> => {
  const [node] = (await fabric.store.records(`resources/nodes/${name}`)).values();
  return `${node.spec.ipv4VXLANTunnelAddr} vxlan.netplug`;
};

describe('a borrowed address', () => {
  it('is reachable from everywhere while it is borrowed', async () => {
    await fabric.apply(tunnels, poolOf(28));
    await fabric.startAgents();
    const owner = await podOn('n1');
    const borrowers = [await podOn('n2'), await podOn('n3')];
    await expectReached(pairsOf([owner, ...borrowers]));
    const [borrowed] = borrowers;
    const { ipv4 } = borrowed!.addresses;
    expect(await routeOn('n1', TINY)).toBe('blackhole');
    expect(await routeOn('n3', TINY)).toBe(await tunnelOf('n1'));
    for (const other of ['n1', 'n3']) expect(await routeOn(other, ipv4)).toBe(await tunnelOf('n2'));
    await borrowed!.remove();
    for (const other of ['n1', 'n3']) await until(async () => (await routeOn(other, ipv4)) === '', 'the route goes');
    await expectReached(pairsOf([owner, borrowers[1]!]));
  });
});

describe('a block', () => {
  it('that another node takes over is routed there', async () => {
    await fabric.apply(tunnels, poolOf(29));
    await fabric.startAgents({ NETPLUG_WARM_POOL_SIZE: '0' });
    const [first, second] = [await podOn('n1'), await podOn('n3')];
    await expectReached(pairsOf([first, second]));
    const moving = ['10.66.0.0/29', '10.66.0.8/29'].find((cidr) => blockHas(cidr, second.addresses.ipv4));
    expect(await routeOn('n1', moving!)).toBe(await tunnelOf('n3'));
    await second.remove();
    await fabric.node('n3').agent().settled();
    await fabric.node('n3').agent().stop();
    const third = await podOn('n2');
    await expectReached(pairsOf([first, third]));
    expect(blockHas(moving!, third.addresses.ipv4)).toBe(true);
    await until(async () => (await routeOn('n1', moving!)) === (await tunnelOf('n2')), 'the route moves');
    expect(await routeOn('n2', moving!)).toBe('blackhole');
  });

  it('drops packets to an address that no pod holds, without a routing loop', async () => {
    await fabric.apply(tunnels, poolOf(28));
    await fabric.startAgents();
    const [owner, other] = [await podOn('n1'), await podOn('n3')];
    await expectReached(pairsOf([owner, other]));
    await fabric.router.exec('ip', 'route', 'add', TINY, 'via', fabric.node('n1').addresses.ipv4);
    const taken = await fabric.store.heldAddresses();
    const unused = Array.from({ length: 16 }, (_, index) => `10.66.0.${String(index)}`).find(
      (address) => !taken.includes(address) && address !== '10.66.0.0',
    );
    for (const { netns } of [other, owner, fabric.world, fabric.node('n2')]) {
      const answer = await pingOnce(netns, unused!);
      expect(answer).toMatch(/100% packet loss|unreachable/i);
      expect(answer).not.toMatch(/time to live/i);
    }
  });
});

/** For one of the two /29 of the pool. */
function blockHas(cidr: string, address: string): boolean {
  return Number(address.split('.')[3]) >= 8 === cidr.startsWith('10.66.0.8');
}
