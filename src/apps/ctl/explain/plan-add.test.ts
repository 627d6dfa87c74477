import { preallocate, updateTo } from '../../../../test/support/block-edits.ts';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { ipamConfigurationOf, nodeOf, poolOf } from '../../../../test/support/fixtures.ts';
import { memoryOrch, podFactsOf } from '../../../../test/support/memory-orch.ts';
import { type MemoryNode, memoryNode, NETNS } from '../../../../test/support/memory-node.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { UsedRange } from '../../../model/used-range.ts';
import type { Store } from '../../../datastore/store.ts';
import { emptyBlock, heldAddresses } from '../../../model/ip-block.ts';
import type { NodeName } from '../../../model/names.ts';
import type { PodFacts } from '../../../model/pod.ts';
import { formatAddress } from '../../../net/address.ts';
import { addressAt, formatCidr, parseCidr } from '../../../net/cidr.ts';
import type { AddPlan } from './plan-add.ts';

const ORCH = {
  policy: { type: 'orch' },
  orch: { orch_api_root: 'http://127.0.0.1:2' },
  feature_control: { floating_ips: true, ip_addrs_no_ipam: true },
};
const ANNOTATED = podFactsOf('shop', 'web', {
  labels: { app: 'web' },
  serviceAccount: 'seller',
  annotations: { 'cni.netplug/floatingIPs': '["192.0.2.7"]', 'cni.netplug/ipAddrs': '["10.66.0.9"]' },
  namespaceAnnotations: { 'cni.netplug/ipv4pools': '["blue"]' },
});
const BYPASSING = podFactsOf('shop', 'web', { annotations: { 'cni.netplug/ipAddrsNoIpam': '["192.0.2.9"]' } });

const never = new AbortController().signal;

let folder: string;
let node: MemoryNode;
let store: Store;
let own: readonly UsedRange[];
beforeEach(async () => {
  own = [];
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  node = await memoryNode();
  store = openMemoryStore(node.database);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function plan(conf: object = {}, more = '', pods: readonly PodFacts[] = []): Promise<Ran> {
  const file = join(folder, 'net.conf');
  const raw = {
    cniVersion: '1.1.0',
    name: 'net',
    type: 'netplug',
    ipam: { type: 'netplug-ipam' },
    datastore_type: 'kvv3',
    kv_endpoints: 'http://127.0.0.1:1',
    ...conf,
  };
  await writeFile(file, JSON.stringify(raw));
  const argv = `plan add --netconf ${file} --pod shop/web --container c1 --netns ${NETNS} ${more}`.trim().split(' ');
  return callCtl(argv, {
    openStore: () => openMemoryStore(node.database),
    openKernel: () => node.kernel,
    plugin: {
      openOrch: () => memoryOrch(pods),
      readInstalledList: () => undefined,
      readOfferedMtu: () => undefined,
      linkKey: async () => Promise.resolve('key'),
      ownRanges: () => own,
      bandwidthBurstMs: 100,
      confDir: folder,
      binDir: '/nowhere',
    },
  });
}

async function planned(conf: object = {}, more = '', pods: readonly PodFacts[] = []): Promise<AddPlan> {
  const { out, err } = await plan(conf, `-o json ${more}`, pods);
  expect(err).toBe('');
  return JSON.parse(out) as AddPlan;
}

/** Returns the content of the datastore in the form of a plan. */
async function stored(): Promise<{ held: object[]; endpoints: object[] }> {
  const { blocks } = await store.listBlocks(never);
  const { endpoints } = await store.listEndpoints(undefined, never);
  const held = blocks.flatMap(({ value: block }) =>
    heldAddresses(block).map(({ address, allocation }) => ({
      kind: 'assign-address',
      address: formatAddress(address),
      block: formatCidr(block.cidr),
      owner: block.node,
      holder: Object.fromEntries(Object.entries(allocation).filter(([key]) => key !== 'id' && key !== 'at')),
    })),
  );
  return { held, endpoints: endpoints.map(({ value: { spec } }) => spec) };
}

describe('plan add', () => {
  it.each([
    ['IPv4 alone', {}],
    ['both families', { ipam: { type: 'netplug-ipam', assign_ipv6: 'true' } }],
    ['an MTU, queues and forwarding', { mtu: 1400, num_queues: 2, container_settings: { allow_ip_forwarding: true } }],
    ['annotations', ORCH, [ANNOTATED]],
    ['an address that bypasses the address manager', ORCH, [BYPASSING]],
    ['a pool that is asked for', { ipam: { type: 'netplug-ipam', ipv4_pools: ['green'] } }],
  ])('predicts the changes of ADD: %s', async (_, conf, pods: readonly PodFacts[] = []) => {
    await store.createResource(poolOf('green', '10.66.0.0/16'), never);
    await store.createResource(poolOf('six', 'fd00:65::/64'), never);
    const before = node.database.state();
    const said = await planned(conf, '', pods);
    expect(node.database.state()).toBe(before);
    expect(node.kernel.listHostLinks()).toEqual([]);

    const { stdout, status } = await node.call('ADD', { conf, pods });
    expect(status).toBe(0);
    expect(said.result).toEqual(JSON.parse(stdout));
    const { held, endpoints } = await stored();
    expect(said.store.filter(({ kind }) => kind === 'assign-address')).toEqual(held);
    expect(said.store.flatMap((step) => (step.kind === 'put-endpoint' ? [step.spec] : []))).toEqual(endpoints);
    const claims = said.store.flatMap((step) => (step.kind === 'claim-block' ? [step.block] : []));
    expect(claims).toEqual((await store.listBlocks(never)).blocks.map(({ value }) => formatCidr(value.cidr)));
    const [link] = said.kernel.flatMap((step) => (step.kind === 'link' && step.where === 'host' ? [step] : []));
    expect(node.kernel.listHostLinks()).toMatchObject([{ name: link?.link, mac: link?.mac, mtu: link?.mtu }]);
  });

  it('refuses what ADD refuses, with the same words, when a pool overlaps a network of this machine', async () => {
    own = [{ cidr: parseCidr('10.0.0.0/8'), what: 'the network of interface "eth0"' }];
    const { stdout } = await node.call('ADD', { ownRanges: own });
    const { msg } = JSON.parse(stdout) as { msg: string };
    expect(msg).toContain('it overlaps 10.0.0.0/8, the network of interface "eth0"');
    const { status, err } = await plan();
    expect({ status, isSame: err.includes(msg) }).toEqual({ status: 75, isSame: true });
  });

  it('refuses a pool over the network that another node has published, whatever this machine has', async () => {
    own = [{ cidr: parseCidr('10.0.0.0/8'), what: 'the network of interface "eth0"' }];
    await store.createResource({ ...nodeOf('far'), spec: { bgp: { ipv4Address: '192.0.2.7/24' } } }, never);
    expect((await plan({}, '--node far')).status).toBe(0);
    await store.createResource({ ...nodeOf('wide'), spec: { bgp: { ipv4Address: '10.0.0.5/8' } } }, never);
    const { status, err } = await plan({}, '--node wide');
    expect(status).toBe(75);
    expect(err).toContain('it overlaps 10.0.0.0/8, the network of node "wide"');
  });

  it('plans the next address of an existing block, and no change for a connected container', async () => {
    await node.call('ADD', { env: { CNI_CONTAINERID: 'c0', CNI_ARGS: '' } });
    node.kernel.removeNetns(NETNS);
    node.kernel.addNetns(NETNS);
    const said = await planned();
    await node.call('ADD');
    const { held } = await stored();
    expect(said.store.filter(({ kind }) => kind !== 'put-endpoint')).toEqual([held[1]]);
    const again = await plan();
    expect(again.out).toContain('nothing changes: the container is connected already');
  });

  it('plans to borrow an address, and to request a pre-allocated one, where ADD would', async () => {
    const own = 'node-a' as NodeName;
    const other = 'node-b' as NodeName;
    node.database.putResource({ kind: 'IPPool', name: 'blue' }, poolOf('blue', '10.65.0.0/26'));
    const [pool] = (await store.readNodeView(own, undefined, never)).pools;
    const ids = new Map(Array.from({ length: 63 }, (_, ordinal) => [ordinal, `run#${String(ordinal)}`]));
    const block = preallocate(emptyBlock(parseCidr('10.65.0.0/26'), other), ids);
    await store.commit([{ kind: 'create-block', block, pool: pool! }], never);
    expect((await planned()).store).toMatchObject([
      { kind: 'assign-address', address: '10.65.0.63', owner: 'node-b' },
      { kind: 'put-endpoint' },
    ]);
    const asked = await planned({}, '--args IP=10.65.0.5');
    expect(asked.store).toMatchObject([
      { kind: 'request-address', address: '10.65.0.5', owner: 'node-b' },
      { kind: 'assign-address', address: '10.65.0.5' },
      { kind: 'put-endpoint' },
    ]);
  });

  it('fails with the error of ADD', async () => {
    await store.createResource(ipamConfigurationOf({ strictAffinity: true }), never);
    const conf = { ipam: { type: 'netplug-ipam', ipv4_pools: ['red'] } };
    const { status, err } = await plan(conf);
    const add = JSON.parse((await node.call('ADD', { conf })).stdout) as { msg: string };
    expect(status).toBe(78);
    expect(err.split('\n')[0]).toBe(add.msg);
  });

  it('lists pre-allocated addresses of the agent, and plans for other nodes without a kernel', async () => {
    await store.createResource(nodeOf('node-b'), never);
    await node.call('ADD');
    const [block] = (await store.listBlocks(never)).blocks;
    const after = preallocate(block!.value, new Map([[9, 'run#1']]));
    await store.commit([updateTo(block!, after)], never);
    const address = formatAddress(addressAt(block!.value.cidr, 9));
    expect((await plan({}, '--container c2')).out).toContain(`has pre-allocated ${address}`);
    const elsewhere = await planned({}, '--node node-b');
    expect(elsewhere.store).toMatchObject([{ kind: 'claim-block', node: 'node-b' }, {}, {}]);
  });

  it('prints the plan as text', async () => {
    const { out } = await plan({
      ipam: { type: 'netplug-ipam', ipv4_pools: ['blue'] },
      readiness_gates: ['http://g/'],
    });
    await expect(out.replaceAll(folder, 'FOLDER')).toMatchFileSnapshot('../../../../test/golden/plan-add.txt');
  });

  it('refuses configurations whose addresses another plugin assigns', async () => {
    const { status, err } = await plan({ ipam: { type: 'host-local', ranges: [[{ subnet: '10.1.0.0/16' }]] } });
    expect(status).toBe(64);
    expect(err).toContain('addresses come from plugin "host-local"');
    expect(await plan({}, '--args K8S_POD_NAME=x')).toMatchObject({ status: 64 });
  });
});
