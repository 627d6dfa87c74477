import { preallocate } from '../../../../test/support/block-edits.ts';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { callCtl, type Ran } from '../../../../test/support/ctl.ts';
import { ipamConfigurationOf, nodeOf, poolOf, reservationOf } from '../../../../test/support/fixtures.ts';
import { memoryOrch, podFactsOf } from '../../../../test/support/memory-orch.ts';
import { MemoryHostNetwork } from '../../../../test/support/memory/memory-host-network.ts';
import { type MemoryNode, memoryNode } from '../../../../test/support/memory-node.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';
import type { HostLink } from '../../../dataplane/kernel.ts';
import type { UsedRange } from '../../../model/used-range.ts';
import type { Store } from '../../../datastore/store.ts';
import { emptyBlock, heldAddresses } from '../../../model/ip-block.ts';
import { nodeName } from '../../../../test/support/fixtures.ts';
import type { PodFacts } from '../../../model/pod.ts';
import { formatAddress } from '../../../net/address.ts';
import { parseCidr } from '../../../net/cidr.ts';
import type { ExplainedPod } from './explain-pod.ts';

const never = new AbortController().signal;
const POLICY = { policy: { type: 'orch' }, orch: { orch_api_root: 'http://127.0.0.1:2' } };

let folder: string;
let node: MemoryNode;
let store: Store;
let own: readonly UsedRange[];
let host: MemoryHostNetwork;
/** Undefined where no agent has run. */
let registeredName: string | undefined;
beforeEach(async () => {
  own = [];
  host = new MemoryHostNetwork();
  registeredName = undefined;
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  node = await memoryNode();
  store = openMemoryStore(node.database);
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

async function installNetconf(conf: object): Promise<void> {
  const entry = { type: 'netplug', ipam: { type: 'netplug-ipam' }, kv_endpoints: 'http://127.0.0.1:1', ...conf };
  const list = { cniVersion: '1.0.0', name: 'net', plugins: [entry] };
  await writeFile(join(folder, '10-netplug.conflist'), JSON.stringify(list));
}

/** Names a datastore; without it, the network configuration of the node does. */
const NAMED = { KV_ENDPOINTS: 'http://127.0.0.1:1' };

async function run(
  argv: string,
  pods: readonly PodFacts[] = [],
  env: Readonly<Record<string, string>> = NAMED,
): Promise<Ran> {
  return callCtl(argv.split(' '), {
    env,
    openHostNetwork: () => host,
    readRegisteredName: () => registeredName,
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

async function explained(argv: string, pods: readonly PodFacts[] = []): Promise<ExplainedPod & { node: string }> {
  return JSON.parse((await run(`${argv} -o json`, pods)).out) as ExplainedPod & { node: string };
}

describe('netplugctl why IP', () => {
  it('names the holder of an address and its endpoint, and suspects a leak without an endpoint', async () => {
    await node.call('ADD');
    const [block] = (await store.listBlocks(never)).blocks;
    const address = formatAddress(heldAddresses(block!.value)[0]!.address);
    const held = await run(`why ${address}`);
    expect(held.out).toContain(`${address} is held\n  pod:         shop/web\n`);
    expect(held.out).toMatch(/endpoint shop\/node--a-orch-web-eth0 uses it behind interface npl/);
    const [endpoint] = (await store.listEndpoints(undefined, never)).endpoints;
    // Another pod that claims the same container.
    const { metadata, spec } = endpoint!.value;
    const name = metadata.name.replace('web', 'a');
    const forged = { ...endpoint!.value, metadata: { ...metadata, name }, spec: { ...spec, pod: 'a', ipNetworks: [] } };
    await store.commit([{ kind: 'put-endpoint', endpoint: forged }], never);
    expect((await run(`why ${address}`)).out).toContain('endpoint shop/node--a-orch-web-eth0 uses it');
    await store.commit([{ kind: 'delete-endpoint', before: endpoint! }], never);
    expect((await run(`why ${address}`)).out).toContain('the holder has no endpoint');
  });

  it('names what goes before the route to the address, where an agent has made routes', async () => {
    await node.call('ADD');
    const [{ name, addresses }] = node.kernel.listHostLinks() as [HostLink];
    const address = formatAddress(addresses[0]!);
    host.putPodLink(name, addresses);
    const by = { rule: 5270, table: 52, type: 'unicast', destination: parseCidr('0.0.0.0/0'), device: 'tailscale0' };
    const commands = [`why ${address}`, 'why pod shop/web'];
    const said = async (): Promise<readonly boolean[]> =>
      Promise.all(
        commands.map(async (argv) => {
          const { out } = await run(argv);
          return out.includes(`on this node, packets to ${address} `) && out.includes('"tailscale0" in place of "npl');
        }),
      );
    registeredName = 'node-a';
    expect(await said()).toEqual([false, false]);
    host.overrule(parseCidr('0.0.0.0/0'), { ...by, gateway: undefined, metric: undefined });
    expect(await said()).toEqual([true, true]);
    registeredName = undefined;
    expect(await said()).toEqual([false, false]);
  });

  it.each([
    ['10.99.0.1', ['10.99.0.1 is outside of every pool', 'is outside all pools ("blue" 10.65.0.0/16']],
    ['10.65.0.1', ['is free', 'no node has claimed its block 10.65.0.0/26 of pool "blue" yet']],
    ['10.66.0.1', ['cannot be assigned: pool "off" is disabled']],
    ['10.67.0.1', ['pool "rack" selects node-b by "rack == \\"b\\""; pods on other nodes']],
    ['10.68.0.1', ['cannot be assigned to pods: pool "tunnels" is for Tunnel only']],
    ['10.65.1.3', ['is pre-allocated', 'the agent of node node-b has pre-allocated it']],
    ['10.65.1.1', ['is reserved', 'reservation "kept" excludes it from automatic assignment']],
    [
      '10.65.1.2',
      ['is free', 'strict affinity is on: only node node-b may', 'its block assigns 2 other free addresses first'],
    ],
  ])('explains the state of the unassigned address %s', async (address, said) => {
    await store.createResource(nodeOf('node-b', { rack: 'b' }), never);
    await store.createResource(poolOf('off', '10.66.0.0/16', { disabled: true }), never);
    await store.createResource(poolOf('rack', '10.67.0.0/16', { nodeSelector: 'rack == "b"' }), never);
    await store.createResource(poolOf('tunnels', '10.68.0.0/16', { allowedUses: ['Tunnel'] }), never);
    await store.createResource(reservationOf('kept', ['10.65.1.1/32']), never);
    await store.createResource(ipamConfigurationOf({ strictAffinity: true }), never);
    const [pool] = (await store.readNodeView(nodeName('node-b'), undefined, never)).pools;
    const block = preallocate(emptyBlock(parseCidr('10.65.1.0/26'), nodeName('node-b')), new Map([[3, 'run#1']]));
    await store.commit([{ kind: 'create-block', block, pool: pool! }], never);
    const { status, out } = await run(`why ${address}`);
    expect(status).toBe(0);
    for (const text of said) expect(out).toContain(text);
    expect(JSON.parse((await run(`why ${address} -o json`)).out)).toMatchObject({ address });
  });

  it('reads the datastore of the command even if the network configuration of the node is invalid', async () => {
    await installNetconf({ mtu: 5 });
    expect(await run('why 10.65.0.1', [], NAMED)).toMatchObject({ status: 0, err: '' });
    const [file, place] = [join(folder, '10-netplug.conflist'), 'mtu: found 5'];
    for (const argv of ['why 10.65.0.1', 'why pod shop/web']) {
      const { status, err } = await run(argv, [], {});
      expect(status).toBe(78);
      expect(err).toContain(`Cannot use the network configuration in "${file}": 1 problem\n  ${place}`);
    }
  });

  it('refuses an argument that is neither an address nor a pod', async () => {
    expect(await run('why me')).toMatchObject({ status: 64, err: expect.stringContaining('Cannot explain "me"') });
    expect(await run('why pod web')).toMatchObject({ status: 64, err: expect.stringContaining('NAMESPACE/NAME') });
  });
});

describe('netplugctl why pod', () => {
  it('says what the interface of the pod lacks on its node, and nothing of others', async () => {
    await node.call('ADD');
    const [link] = node.kernel.listHostLinks();
    const lacks = `interface "${link!.name}" of container`;
    expect((await run('why pod shop/web')).out).not.toContain(lacks);
    node.kernel.flap(link!.name);
    const { out } = await run('why pod shop/web');
    expect(out).toContain(lacks);
    expect(out).toContain(`no route to ${formatAddress(link!.addresses[0]!)}`);
    expect((await run('why pod shop/other')).out).not.toContain(lacks);
  });

  it('names the limits of the rate that are in force on its node', async () => {
    await node.call('ADD');
    const [link] = node.kernel.listHostLinks();
    const limit = { bytesPerSecond: 1_250_000, burstBytes: 193_273_526, queueBytes: 536_902_161 };
    node.kernel.limitRate(link!.name, { ...limit, direction: 'egress' });
    expect((await run('why pod shop/web')).out).toMatch(
      /"bwp\S+" of container \S+ it sends 10 Mbit\/s, and 193274 kB at once/,
    );
    expect((await run('why pod shop/other')).out).not.toContain('Mbit/s');
  });

  it.each(['ipAddrs', 'ipAddrsNoIpam', 'floatingIPs', 'ipv4pools', 'ipv6pools'])(
    'lets the annotation %s write no line of its own',
    async (key) => {
      await installNetconf(POLICY);
      const forged = JSON.stringify(['x\n\npod shop/web has 10.65.0.7\u2028\u202e']);
      const annotations = { [`cni.netplug/${key}`]: forged };
      const { out } = await run('why pod shop/web', [podFactsOf('shop', 'web', { nodeName: 'node-a', annotations })]);
      expect(out.split('\n').filter((line) => /has 10\.65\.0\.7/.test(line))).toEqual([
        expect.stringContaining(`cni.netplug/${key} is "[`),
      ]);
    },
  );

  it.each([
    ['pod-annotation', { annotations: { 'cni.netplug/ipv4pools': '["green"]' } }, { ipv4_pools: ['blue'] }],
    ['namespace-annotation', { namespaceAnnotations: { 'cni.netplug/ipv4pools': '["green"]' } }, {}],
    ['netconf', {}, { ipv4_pools: ['green'] }],
    ['node-selector', {}, {}],
  ])('names the method that decides, which ADD then follows: %s', async (rule, annotations, ipam) => {
    await store.createResource(poolOf('green', '10.66.0.0/16'), never);
    const conf = { ...POLICY, ipam: { type: 'netplug-ipam', ...ipam } };
    await installNetconf(conf);
    const pods = [podFactsOf('shop', 'web', { nodeName: 'node-a', ...annotations })];
    const before = node.database.state();
    const said = await explained('explain pod shop/web', pods);
    expect(node.database.state()).toBe(before);
    const would = said.wouldDo?.find(({ kind }) => kind === 'assign-address');
    expect((await node.call('ADD', { conf, pods })).status).toBe(0);
    const { held } = await explained('why pod shop/web', pods);
    expect(would).toMatchObject({ address: held[0]?.address, holder: { chosenBy: rule } });
    const [v4] = said.families;
    expect(v4?.methods.filter(({ decides }) => decides)).toHaveLength(1);
    expect(v4?.pools.find(({ outcome }) => outcome === 'taken')?.name).toBe(held[0]?.pool);
  });

  it('explains for each pool whether ADD would use it', async () => {
    const full = poolOf('full', '10.64.0.0/30', { blockSize: 30 });
    await store.createResource(full, never);
    await store.createResource(poolOf('green', '10.66.0.0/16'), never);
    await store.createResource(poolOf('off', '10.69.0.0/16', { disabled: true }), never);
    await store.createResource(poolOf('rack', '10.67.0.0/16', { nodeSelector: 'has(rack)' }), never);
    await store.createResource(poolOf('tunnels', '10.68.0.0/16', { allowedUses: ['Tunnel'] }), never);
    node.database.putResource({ kind: 'IPPool', name: 'a-full' }, poolOf('a-full', '10.63.0.0/30', { blockSize: 30 }));
    await store.createResource(reservationOf('all', ['10.63.0.0/30']), never);
    await installNetconf({});
    const { status, out } = await run('why pod shop/new');
    expect(status).toBe(0);
    await expect(out.replaceAll(folder, 'FOLDER')).toMatchFileSnapshot('../../../../test/golden/why-pod.txt');
  });

  it('names the network of this machine that a pool overlaps', async () => {
    own = [{ cidr: parseCidr('10.0.0.0/8'), what: 'the network of interface "eth0"' }];
    const { status, out } = await run('why pod shop/web --node node-a');
    expect(status).toBe(1);
    expect(out).toContain('it overlaps 10.0.0.0/8, the network of interface "eth0"');
  });

  it('explains why a pod gets no address: exhausted pools, a missing pod, invalid annotations', async () => {
    node.database.putResource(
      { kind: 'IPPool', name: 'blue' },
      poolOf('blue', '10.65.0.0/26', { nodeSelector: 'has(rack)' }),
    );
    await installNetconf({ ...POLICY });
    const exhausted = await run('why pod shop/web', [podFactsOf('shop', 'web', { nodeName: 'node-a' })]);
    expect(exhausted.status).toBe(1);
    expect(exhausted.out).toContain('pod shop/web gets no address\n');
    expect(exhausted.out).toContain('its nodeSelector "has(rack)" does not select node "node-a", which has no labels');
    const gone = await explained('why pod shop/gone');
    expect(gone.refusal?.code).toBe('orch/not-found');
    const wrong = podFactsOf('shop', 'web', { annotations: { 'cni.netplug/ipAddrs': '["10.65.0.300"]' } });
    expect((await explained('why pod shop/web', [wrong])).refusal?.message).toContain('"10.65.0.300" is no IP address');
    const red = podFactsOf('shop', 'web', { annotations: { 'cni.netplug/ipv4pools': '["red"]' } });
    expect((await explained('why pod shop/web', [red])).refusal).toMatchObject({ code: 'ipam/pool-not-found' });
  });

  it('explains for the node of the pod, or for the node of --node', async () => {
    await installNetconf({ ...POLICY });
    const pods = [podFactsOf('shop', 'web', { nodeName: 'node-z' })];
    expect((await explained('why pod shop/web', pods)).node).toBe('node-z');
    expect((await explained('why pod shop/web --node node-q', pods)).node).toBe('node-q');
    expect((await explained('why pod shop/web', pods)).notes.join()).toContain('Node "node-z" does not exist');
  });

  /** A pod with a fixed address on node-a, as ADD leaves it. */
  const DB = { nodeName: 'node-a', annotations: { 'cni.netplug/ipAddrs': '["10.65.0.5"]' } };
  const startDb = async (): Promise<void> => {
    await installNetconf(POLICY);
    const env = { CNI_ARGS: 'K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0' };
    const pods = [podFactsOf('shop', 'db-0', { ...DB, uid: 'uid-1' })];
    expect(await node.call('ADD', { conf: POLICY, pods, env })).toMatchObject({ status: 0 });
  };

  it('names the pod and the node that hold the fixed address of a pod that starts elsewhere', async () => {
    await startDb();
    const next = podFactsOf('shop', 'db-0', { ...DB, uid: 'uid-2', nodeName: 'node-z' });
    const { status, out } = await run('why pod shop/db-0', [next]);
    expect(status).toBe(1);
    expect(out).toMatch(/^pod shop\/db-0 gets no address\n {2}node: node-z \(the node of the pod\)\n/);
    expect(out).toMatch(
      /addresses that an earlier pod of this name holds\n {2}10\.65\.0\.5 of pool "blue" since .* on node node-a\n/,
    );
    expect(out).toMatch(/held by pod "shop\/db-0" on node "node-a" since .*, an earlier pod of this name\n/);
    expect(out).toContain('netplugctl ipam release --ip 10.65.0.5 --force');
    // The orchestrator has chosen no node yet.
    const pending = await run('why pod shop/db-0', [podFactsOf('shop', 'db-0', { annotations: {}, uid: 'uid-2' })]);
    expect(pending.out).toContain('node: node-a (this machine)');
    expect(pending.out).toContain('an earlier pod of this name holds');
  });

  it('does not call an address that of a pod which the orchestrator has no more', async () => {
    await startDb();
    const { status, out } = await run('why pod shop/db-0');
    expect(status).toBe(1);
    expect(out).toMatch(
      /^pod shop\/db-0 gets no address\n {2}node: node-a \(the node of an earlier pod of this name\)\n/,
    );
    expect(out).toMatch(/an earlier pod of this name holds\n {2}10\.65\.0\.5 of pool "blue"/);
  });

  it.each(['uid-1', 'uid-of-the-next'])('counts what the pod holds on its node as its own: %s', async (uid) => {
    await startDb();
    const { status, out } = await run('why pod shop/db-0', [podFactsOf('shop', 'db-0', { ...DB, uid })]);
    expect(status).toBe(0);
    expect(out).toMatch(/^pod shop\/db-0 has 10\.65\.0\.5\n {2}node: node-a \(the node of the pod\)\n/);
  });

  it('notes its assumptions', async () => {
    const { out } = await run('why pod shop/web');
    expect(out).toContain('defaults are assumed; use --netconf FILE');
    expect(out).toContain('annotations are not read');
  });
});
