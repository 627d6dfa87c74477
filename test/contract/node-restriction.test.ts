// The shipped policies that end the writes of plugin and agent at their own node, on a real API server.
import { preallocate, updateTo } from '../support/block-edits.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import { keepClusterInformation } from '../../src/datastore/keep-cluster-information.ts';
import { endpointObject } from '../../src/datastore/orch/endpoint-objects.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { assign, type IpamPorts } from '../../src/ipam/assign.ts';
import { release } from '../../src/ipam/release.ts';
import { handleOf, type NodeName } from '../../src/model/names.ts';
import { NODE_CONDITIONS } from '../../src/model/notes.ts';
import { formatAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { MACHINE, nodeName, poolOf } from '../support/fixtures.ts';
import { attachmentOf, requestOf } from '../support/ipam-bench.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;
const limits = { signal: never, cleanupSignal: never };
const MERGE = 'application/merge-patch+json';
const STRATEGIC = 'application/strategic-merge-patch+json';
const BLOCKS = '/apis/netplug.io/v3/ipblocks';
/** Two blocks of four addresses. */
const POOL = poolOf('small', '10.66.0.0/29', { blockSize: 30 });
const [a, b] = [nodeName('node-a'), nodeName('node-b')];
const [FIRST, SECOND] = ['10.66.0.0/30', '10.66.0.4/30'];
const NETPLUG_NODES = '/apis/netplug.io/v3/netplugnodes';
const ENDPOINTS = '/apis/netplug.io/v3/workloadendpoints';

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
/** Of accounts and nodes, as `agent node-a`, and of an agent on no node. */
const tokens = new Map<string, string>();
/** What the plugin of a node does. */
const stores = new Map<NodeName, Store>();

beforeAll(async () => {
  server = scope.use(await startOrchApiServer());
  for (const name of [a, b]) {
    await server.putNode(name);
    for (const [program, account] of [
      ['plugin', 'netplug-cni'],
      ['agent', 'netplug-agent'],
    ] as const)
      tokens.set(`${program} ${name}`, await server.tokenFor(`netplug-system/${account}`, { node: name }));
    const path = await server.kubeconfigFor(tokenOf(`plugin ${name}`));
    stores.set(name, scope.use(openOrchStore({ from: 'file', path })));
  }
  tokens.set('agent', await server.callerToken('agent'));
  await server.putNamespace('shop');
  await server.apply(await readFile(join(import.meta.dirname, '../../manifests/node-restriction.yaml'), 'utf8'));
  const isOn = async (): Promise<boolean> => {
    const writes = [
      as('agent', 'POST', ENDPOINTS, endpointOf('probe', a)),
      as('agent', 'PATCH', `/api/v1/nodes/${a}/status`, { metadata: { annotations: { 'netplug/x': 'y' } } }, MERGE),
      as('agent', 'POST', BLOCKS, blockOf('10.99.0.0/30', a)),
      as('agent', 'POST', '/apis/netplug.io/v3/clusterinformations', clusterInformation({})),
      as('agent', 'POST', NETPLUG_NODES, netplugNode(a)),
      as('agent', 'POST', '/api/v1/namespaces/netplug-system/serviceaccounts/netplug-cni/token', { spec: {} }),
    ];
    return (await Promise.all(writes)).every(({ status }) => status === 403);
  };
  await until(isOn, 'the policies take effect', 60_000, 200);
});
afterAll(async () => scope.disposeAsync());

beforeEach(async () => {
  // Not the nodes: tokens are bound to them.
  const kinds = ['ipblocks', 'ippools', 'clusterinformations', 'netplugnodes', 'nodereports', 'workloadendpoints'].map(
    (plural) => `/apis/netplug.io/v3/${plural}`,
  );
  for (const path of kinds) await server.call('DELETE', path);
  await server.call('POST', '/apis/netplug.io/v3/ippools', { body: POOL });
});

function tokenOf(caller: string): string {
  const token = tokens.get(caller);
  if (token === undefined) throw new Error(`there is no token of "${caller}"`);
  return token;
}

function portsOf(node: NodeName): IpamPorts {
  const store = stores.get(node);
  if (store === undefined) throw new Error(`node "${node}" has no store`);
  return { store, clock: systemClock, random: systemRandom, log: silentLog };
}

async function as(
  caller: string,
  method: string,
  path: string,
  body?: unknown,
  type?: string,
): Promise<{ readonly status: number; readonly body: Json }> {
  return server.ask(method, path, { body, token: tokenOf(caller), ...(type === undefined ? {} : { type }) });
}

async function expectRefused(asked: ReturnType<typeof as>, words: string): Promise<void> {
  const { status, body } = await asked;
  expect(body.message).toContain(words);
  expect(body.message).toContain('ValidatingAdmissionPolicy');
  expect(status).toBeGreaterThanOrEqual(400);
}

function blockOf(cidr: string, node: string, more: object = {}): Json {
  const name = cidr.replaceAll(/[./]/g, '-');
  const labels = { 'netplug/node': node };
  const spec = { format: 1, cidr, node, slots: {}, free: '0-3', ...more };
  return { apiVersion: 'netplug.io/v3', kind: 'IPBlock', metadata: { name, labels }, spec };
}

function endpointOf(name: string, node: NodeName): Json {
  const spec = { orchestrator: 'orch', node, network: 'net', containerID: 'c', pod: name, endpoint: 'eth0' } as const;
  const links = { interfaceName: 'npl0', mac: '', ipNetworks: ['10.66.0.1/32'], profiles: [], ipam: 'netplug-ipam' };
  return endpointObject({
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name, namespace: 'shop' },
    spec: { ...spec, ...links },
  });
}

function clusterInformation(spec: object): object {
  return { apiVersion: 'netplug.io/v3', kind: 'ClusterInformation', metadata: { name: 'default' }, spec };
}

function netplugNode(name: string): object {
  return { apiVersion: 'netplug.io/v3', kind: 'NetplugNode', metadata: { name }, spec: {} };
}

/** The address that a pod of the node gets. */
async function add(node: NodeName, container: string): Promise<string> {
  const [lease] = await assign(portsOf(node), requestOf(container, { node }), limits);
  return lease === undefined ? 'nothing' : formatAddress(lease.address);
}

async function del(node: NodeName, container: string): Promise<void> {
  const handle = handleOf(attachmentOf(container));
  await release(portsOf(node), { node, which: (held) => held.handle === handle }, never);
}

/** The range of the block that the address lies in. */
function blockAround(address: string): string {
  return Number(address.split('.').at(-1)) < 4 ? FIRST : SECOND;
}

/** The path of the block with that range. */
function pathOf(cidr: string): string {
  return `${BLOCKS}/${cidr.replaceAll(/[./]/g, '-')}`;
}

async function put(caller: string, block: Json): ReturnType<typeof as> {
  return as(caller, 'PUT', pathOf(block.spec.cidr), block);
}

/** A block of node-a with one address that it holds: its range, its object, and the place of the address. */
async function ownedBlock(): Promise<{ readonly cidr: string; readonly block: Json; readonly held: string }> {
  const cidr = blockAround(await add(a, 'a0'));
  const block = await server.call('GET', pathOf(cidr));
  const [held = ''] = Object.keys(block.spec.slots);
  return { cidr, block, held };
}

describe('with the policies that restrict nodes, a node', () => {
  it('assigns, borrows, takes over an empty block, releases, and leaves a block without an owner', async () => {
    const { cidr: mine } = await ownedBlock();
    const theirs = blockAround(await add(b, 'b0'));
    expect(theirs).not.toBe(mine);
    for (const name of ['a1', 'a2', 'a3']) await add(a, name);
    expect(blockAround(await add(a, 'a4'))).toBe(theirs);
    const holders = async (): Promise<Json> => {
      const { spec } = await server.call('GET', pathOf(theirs));
      return [spec.node, ...Object.values(spec.slots).map(({ node }: Json) => node)].toSorted();
    };
    expect(await holders()).toEqual([a, b, b]);
    await del(a, 'a4');
    await del(b, 'b0');
    expect(await holders()).toEqual([b]);
    expect(blockAround(await add(a, 'a5'))).toBe(theirs);
    expect(await holders()).toEqual([a, a]);
    await del(a, 'a5');
    const disown = ['/spec/node', '/metadata/labels/netplug~1node'].map((path) => ({ op: 'remove', path }));
    await server.call('PATCH', pathOf(mine), { body: disown, type: 'application/json-patch+json' });
    for (const name of ['a0', 'a1', 'a2', 'a3']) await del(a, name);
    expect((await server.call('GET', BLOCKS)).items.map(({ spec }: Json) => spec.cidr)).toEqual([theirs]);
  });

  it('pre-allocates addresses in its own block, and requests those of another node', async () => {
    const { cidr } = await ownedBlock();
    const read = async (node: NodeName) => (await portsOf(node).store.getBlocks([parseCidr(cidr)], never))[0]!;
    const before = await read(a);
    const [aside = -1] = before.value.queue;
    const after = preallocate(before.value, new Map([[aside, 'run#1']]));
    expect(await portsOf(a).store.commit([updateTo(before, after)], never)).toBe('committed');
    const theirs = await read(b);
    const asking = updateTo(theirs, { ...theirs.value, requested: new Set([aside]) });
    expect(await portsOf(b).store.commit([asking], never)).toBe('committed');
    const block = await server.call('GET', pathOf(cidr));
    const [slot]: Json[] = Object.values(block.spec.slots);
    for (const caller of [`plugin ${b}`, `agent ${b}`]) {
      const given = { ...block.spec, preallocated: {} };
      await expectRefused(put(caller, { ...block, spec: given }), 'only the agent of node "node-a" may change');
      const forgotten = { ...block.spec, requested: [] };
      await expectRefused(put(caller, { ...block, spec: forgotten }), 'only the agent of node "node-a" may change');
      const taken = { ...block.spec, slots: { ...block.spec.slots, [aside]: { ...slot, node: b } } };
      await expectRefused(put(caller, { ...block, spec: taken }), 'may take only addresses that are free');
    }
  });

  it.each<[string, (block: Json, held: string) => void, string]>([
    [
      'takes the block over',
      ({ metadata, spec }) => {
        spec.node = b;
        metadata.labels['netplug/node'] = b;
      },
      'holds or has pre-allocated',
    ],
    [
      'leaves the block without an owner',
      ({ metadata, spec }) => {
        delete spec.node;
        delete metadata.labels['netplug/node'];
      },
      'holds or has pre-allocated',
    ],
    ['releases an address of the owner', ({ spec }, held) => delete spec.slots[held], 'release only addresses that it'],
    [
      'gives an address of the owner to itself',
      ({ spec }, held) => (spec.slots[held].node = b),
      'may take only addresses that are free',
    ],
    [
      'gives a free address to the owner',
      ({ spec }, held) => (spec.slots[(Number(held) + 1) % 4] = { ...spec.slots[held], id: 'other' }),
      'may take only addresses that are free',
    ],
    [
      'changes the handle of an address of the owner',
      ({ spec }, held) => (spec.slots[held].handle = 'mine'),
      'may take only addresses that are free',
    ],
    ['routes the block to itself', ({ metadata }) => (metadata.labels['netplug/node'] = b), 'must name the owner'],
    [
      'routes an address of the owner to itself',
      ({ metadata }, held) => (metadata.annotations = { 'netplug/borrowed': `{"node-b":[${held}]}` }),
      'must name the nodes that hold',
    ],
    [
      'writes of borrowers what no policy can read',
      ({ metadata }, held) => (metadata.annotations = { 'netplug/borrowed': `{ "node-b": [${held}] }` }),
      'must name the nodes that hold',
    ],
  ])('is refused when it %s, in the block of another', async (_, change, words) => {
    const { block, held } = await ownedBlock();
    change(block, held);
    for (const caller of [`plugin ${b}`, `agent ${b}`]) await expectRefused(put(caller, block), words);
    // What is refused is the node, not the write.
    expect((await server.call('PUT', pathOf(block.spec.cidr), { body: block })).metadata.name).toBe(
      block.metadata.name,
    );
  });

  it('neither deletes the block of another node, nor creates one for it or with its addresses', async () => {
    const { cidr, block, held } = await ownedBlock();
    const free = cidr === FIRST ? SECOND : FIRST;
    for (const caller of [`plugin ${b}`, `agent ${b}`]) {
      await expectRefused(as(caller, 'DELETE', pathOf(cidr)), 'the block is owned by node "node-a"');
      await expectRefused(as(caller, 'POST', BLOCKS, blockOf(free, a)), 'a new block must be owned by node "node-b"');
      const foreign = blockOf(free, b, { slots: { [held]: block.spec.slots[held] } });
      await expectRefused(as(caller, 'POST', BLOCKS, foreign), 'may take only addresses that are free');
    }
    expect(await as(`plugin ${a}`, 'DELETE', pathOf(cidr))).toMatchObject({ status: 200 });
  });

  it('records endpoints of its own node only, and writes nothing to pods', async () => {
    await server.putPod({ namespace: 'shop', name: 'p', node: a });
    const own = endpointOf('p', a);
    const home = `${ENDPOINTS}/${own.metadata.name}`;
    const taken = { ...own, spec: { ...own.spec, node: b } };
    for (const program of ['plugin', 'agent']) {
      await expectRefused(as(`${program} ${b}`, 'POST', ENDPOINTS, own), 'the endpoint is not of node "node-b"');
      expect(await as(`${program} ${a}`, 'POST', ENDPOINTS, own)).toMatchObject({ status: 201 });
      const now = await server.call('GET', home);
      expect(await as(`${program} ${a}`, 'PUT', home, { ...now, spec: { ...own.spec, mac: 'x' } })).toMatchObject({
        status: 200,
      });
      const last = await server.call('GET', home);
      for (const node of [a, b])
        await expectRefused(
          as(`${program} ${node}`, 'PUT', home, { ...last, spec: taken.spec }),
          `the endpoint is not of node "${node}"`,
        );
      await expectRefused(as(`${program} ${b}`, 'DELETE', home), 'the endpoint is not of node "node-b"');
      expect(await as(`${program} ${a}`, 'DELETE', home)).toMatchObject({ status: 200 });
      const note = { metadata: { annotations: { 'cni.netplug/podIPs': '10.0.0.1/32' } } };
      for (const path of ['p', 'p/status']) {
        const at = `/api/v1/namespaces/shop/pods/${path}`;
        expect(await as(`${program} ${a}`, 'PATCH', at, note, MERGE)).toMatchObject({ status: 403 });
      }
    }
  });

  it('writes what concerns netplug to its own Node and to no other', async () => {
    const ready = { type: 'Ready', status: 'True' };
    await server.call('PATCH', `/api/v1/nodes/${a}/status`, {
      body: { status: { conditions: [ready] } },
      type: STRATEGIC,
    });
    const write = async (node: string, body: object): ReturnType<typeof as> =>
      as(`agent ${node}`, 'PATCH', `/api/v1/nodes/${a}/status`, body, STRATEGIC);
    const facts = { metadata: { annotations: { 'netplug/IPv4Address': '192.0.2.7/24' } } };
    const conditions = Object.values(NODE_CONDITIONS).map((type) => ({
      status: { conditions: [{ type, status: 'False' }] },
    }));
    for (const change of [facts, ...conditions]) {
      expect(await write(a, change)).toMatchObject({ status: 200 });
      await expectRefused(write(b, change), 'the token is that of node "node-b"');
    }
    for (const change of [
      { metadata: { labels: { 'node-role.kubernetes.io/control-plane': '' } } },
      { metadata: { finalizers: ['example.org/held'] } },
      { metadata: { annotations: { 'volumes.kubernetes.io/x': 'y' } } },
      { status: { conditions: [{ type: 'Ready', status: 'False' }] } },
      { status: { conditions: [{ type: 'netplug.io/Other', status: 'True' }] } },
      { status: { capacity: { cpu: '1000' } } },
      { status: { addresses: [{ type: 'InternalIP', address: '192.0.2.66' }] } },
    ])
      await expectRefused(write(a, change), 'changes nothing of a node but');
  });

  it.each(['netplugnodes', 'nodereports'])(
    'publishes its own node in %s that its Node owns, and no other node',
    async (plural) => {
      const collection = `/apis/netplug.io/v3/${plural}`;
      for (const node of [a, b]) {
        const path = await server.kubeconfigFor(tokenOf(`agent ${node}`));
        await using store = openOrchStore({ from: 'file', path });
        await store.publishNode(node, { ipv4Address: '192.0.2.7/24' }, never);
        await store.publishNode(node, { ipv4Address: '192.0.2.8/24' }, never);
        await store.claimName(node, { machine: MACHINE, mayReplace: () => true }, never);
        await store.publishReport(node, { release: 'v3.27.0', problems: [] }, never);
      }
      const home = `${collection}/${a}`;
      const object = await server.call('GET', home);
      const { metadata, spec } = object;
      const bare = { ...object, metadata: { name: 'node-c', ownerReferences: metadata.ownerReferences }, spec };
      const ofOther = { ...object, metadata: { ...metadata, ownerReferences: [] } };
      await expectRefused(as(`agent ${b}`, 'PUT', home, object), 'the token is that of node "node-b"');
      await expectRefused(as(`agent ${a}`, 'POST', collection, bare), 'the token is that of node "node-a"');
      await expectRefused(as(`agent ${a}`, 'PUT', home, ofOther), 'Node "node-a" must own its object');
      await expectRefused(as('agent', 'PUT', home, object), 'the token is bound to no node');
      expect(await as(`agent ${a}`, 'DELETE', home)).toMatchObject({ status: 403 });
    },
  );

  it('notes its release, and neither locks the datastore nor changes the id of the cluster', async () => {
    const path = await server.kubeconfigFor(tokenOf(`agent ${a}`));
    await using store = openOrchStore({ from: 'file', path });
    const ports = { clock: systemClock, random: systemRandom, store };
    await keepClusterInformation(ports, { version: 'v3.26.0', types: ['orch'] }, never);
    await keepClusterInformation(ports, { version: 'v3.27.0', types: ['orch'] }, never);
    const home = '/apis/netplug.io/v3/clusterinformations/default';
    const info = await server.call('GET', home);
    expect(info.spec).toMatchObject({ netplugVersion: 'v3.27.0', datastoreReady: true });
    const write = async (spec: object): ReturnType<typeof as> =>
      as(`agent ${a}`, 'PUT', home, { ...info, spec: { ...info.spec, ...spec } });
    await expectRefused(write({ datastoreReady: false }), 'only administrators lock');
    await expectRefused(write({ clusterGUID: 'other' }), 'the id of the cluster stays');
  });

  it('gets tokens of the account of the plugin for itself alone, not with the writes of another node', async () => {
    const path = '/api/v1/namespaces/netplug-system/serviceaccounts/netplug-cni/token';
    const asking = (caller: string, name?: string): ReturnType<typeof as> => {
      const boundObjectRef = { apiVersion: 'v1', kind: 'Node', name };
      const spec = { expirationSeconds: 600, ...(name === undefined ? {} : { boundObjectRef }) };
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
      return as(caller, 'POST', path, body);
    };
    expect(await asking(`agent ${a}`, a)).toMatchObject({ status: 201 });
    await expectRefused(asking(`agent ${a}`, b), `the token must be bound to node "${a}"`);
    await expectRefused(asking(`agent ${a}`), `the token must be bound to node "${a}"`);
    await expectRefused(asking('agent', a), 'the token is bound to no node');
  });

  it('is known by its token: one that is bound to no node writes nothing, and that of a Node that is gone is refused', async () => {
    await expectRefused(as('agent', 'POST', ENDPOINTS, endpointOf('p', a)), 'the token is bound to no node');
    await expectRefused(as('agent', 'POST', BLOCKS, blockOf(FIRST, a)), 'the token is bound to no node');
    await server.call('DELETE', `/api/v1/nodes/${a}`);
    const refused = async (): Promise<boolean> => (await as(`agent ${a}`, 'GET', BLOCKS)).status === 401;
    await until(refused, 'the token ends with its Node', 60_000, 200);
  });
});
