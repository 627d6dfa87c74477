// More nodes than blocks, and then fewer addresses than tunnels.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricPod, resourceOf, startFabric } from '../support/fabric.ts';
import { startFlow } from '../support/traffic-flow.ts';
import { pairsOf, expectReached } from '../support/traffic.ts';
import { until } from '../support/until.ts';

const NODES = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6'] as const;
const VXLAN = { vxlanMode: 'Always' };

let fabric: Fabric;
let pods: FabricPod[];
beforeAll(async () => {
  fabric = await startFabric({ nodes: Object.fromEntries(NODES.map((name, at) => [name, at < 4 ? 'a' : 'b'])) });
  await fabric.apply(resourceOf('IPPool', 'v4', { cidr: '10.65.0.0/24', ...VXLAN }));
  await fabric.startAgents();
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

/** What each node has on its tunnel device. */
const onDevices = async (): Promise<(string | undefined)[]> =>
  Promise.all(
    fabric.nodes.map(async ({ netns }) => {
      const [link] = await netns.ip('-4', 'address', 'show', 'dev', 'vxlan.netplug');
      const local = link?.['addr_info']?.[0]?.local;
      return local === undefined ? undefined : String(local);
    }),
  );
/** The same as the address manager has it. */
const inBlocks = async (): Promise<Map<string, string>> => {
  const blocks = [...(await fabric.store.records('ipam/blocks/')).values()];
  return new Map(
    blocks.flatMap(({ cidr, slots }) => {
      const [base = '', last = ''] = /^(.*\.)(\d+)\//.exec(String(cidr))?.slice(1) ?? [];
      return Object.entries<{ network: string; node: string }>(slots)
        .filter(([, { network }]) => network === 'netplug tunnel')
        .map(([ordinal, { node }]) => [node, `${base}${String(Number(last) + Number(ordinal))}`] as const);
    }),
  );
};

describe('six nodes', () => {
  it('that share four blocks get six tunnel addresses, and their pods reach each other', async () => {
    pods = await Promise.all(fabric.nodes.map(async (node) => node.pod({ assign_ipv6: 'false' })));
    await expectReached(pairsOf(pods), () => fabric.logs());
    const [devices, held] = [await onDevices(), await inBlocks()];
    expect(new Set(devices).size).toBe(NODES.length);
    expect(devices).toEqual(NODES.map((name) => held.get(name)));
    expect(new Set(pods.map(({ addresses }) => addresses.ipv4)).size).toBe(NODES.length);
    expect(pods.filter(({ addresses }) => devices.includes(addresses.ipv4))).toEqual([]);
  });

  it("use the node's own address on two tunnels when the pool has four addresses, and share none", async () => {
    await fabric.apply(
      resourceOf('IPPool', 'v4', { cidr: '10.65.0.0/24', ...VXLAN, allowedUses: ['Workload'] }),
      resourceOf('IPPool', 'tunnels', { cidr: '10.66.0.0/30', blockSize: 30, ...VXLAN, allowedUses: ['Tunnel'] }),
    );
    await until(
      async () => (await onDevices()).filter((address) => address?.startsWith('10.66.0.') === true).length === 4,
      () => `four have an address of the new pool\n${fabric.logs()}`,
    );
    const own = fabric.nodes.map(({ addresses }) => addresses.ipv4);
    await until(
      async () => (await onDevices()).filter((address) => own.includes(address ?? '')).length === 2,
      () => `two have their own\n${fabric.logs()}`,
    );
    const [devices, held] = [await onDevices(), await inBlocks()];
    expect(new Set(devices).size).toBe(NODES.length);
    expect(devices).toEqual(NODES.map((name, at) => held.get(name) ?? own[at]));
    await expectReached(pairsOf(pods), () => fabric.logs());
    const hosts = fabric.nodes.map(({ name, netns, addresses }) => ({ name, netns, addresses }));
    const pairs = hosts.flatMap((from) => pods.filter(({ node }) => node !== from.name).map((to) => ({ from, to })));
    await expectReached(pairs, () => fabric.logs());
  });

  it('keep their tunnels when the pool of the tunnel addresses is deleted', async () => {
    const [first, last] = [pods[0]!, pods[5]!];
    const flow = await startFlow(first, last.addresses.ipv4);
    expect(await fabric.netplugctl(['delete', 'ippool', 'tunnels'])).toMatchObject({ status: 0 });
    await until(
      async () => (await onDevices()).every((address) => address?.startsWith('10.66.0.') !== true),
      'all have moved',
    );
    await expectReached(pairsOf(pods), () => fabric.logs());
    expect(await flow.stop()).toMatchObject({ lost: 0 });
    expect([...(await inBlocks()).keys()]).toEqual([]);
  });

  it('release a pool in VXLAN mode once their pods are deleted, except on a node without an agent', async () => {
    await fabric.apply(resourceOf('IPPool', 'v4', { cidr: '10.65.0.0/24', ...VXLAN }));
    await until(async () => (await inBlocks()).size === NODES.length, 'the tunnels have addresses of the pool again');
    expect(await fabric.netplugctl(['delete', 'ippool', 'v4'])).toMatchObject({
      status: 69,
      stderr: expect.stringContaining('6 addresses of it held on 6 nodes'),
    });
    for (const pod of pods) await pod.remove();
    for (const node of fabric.nodes) await node.agent().settled();
    await fabric.node('n6').agent().stop('KILL');
    expect(await fabric.netplugctl(['delete', 'ippool', 'v4'])).toMatchObject({
      status: 69,
      stderr: expect.stringMatching(/the agents of node n6 keep \d+ address[^]*netplugctl node remove n6/),
    });
    await fabric.node('n6').startAgent();
    expect(await fabric.netplugctl(['delete', 'ippool', 'v4'])).toMatchObject({ status: 0 });
    expect(await fabric.store.records('ipam/blocks/')).toEqual(new Map());
  });
});
