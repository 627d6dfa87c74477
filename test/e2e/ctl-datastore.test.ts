// Moves everything from one real datastore to another and back, with the rights of the shipped roles; tests what a lock stops.
import { takeSlot } from '../support/block-edits.ts';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openKvStore } from '../../src/datastore/kv/kv-store.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { CLUSTER_INFORMATION_ID } from '../../src/model/cluster-information.ts';
import { emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import type { AnyResource } from '../../src/model/kinds.ts';
import { handleOf, type NodeName } from '../../src/model/names.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { VERSION } from '../../src/base/version.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { nodeOf, poolOf } from '../support/fixtures.ts';
import { program } from '../support/components.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const never = new AbortController().signal;
const [a, b, gone] = ['node-a', 'node-b', 'node-gone'] as [NodeName, NodeName, NodeName];
/** Enough blocks to kill an import halfway. */
const BLOCKS = 400;

let etcd: Etcd;
let empty: Etcd;
let server: OrchApiServer;
let folder: string;
let file: string;
let orch: Record<string, string>;
const scope = new AsyncDisposableStack();
let kv: Store;
let inOrch: Store;
let second: Store;

const openKv = ({ url }: Etcd): Store =>
  scope.use(
    openKvStore({
      endpoints: { from: 'list', urls: [url] },
      keyFile: undefined,
      certFile: undefined,
      caCertFile: undefined,
    }),
  );

beforeAll(async () => {
  if (!existsSync(NETPLUGCTL)) throw new Error(`${NETPLUGCTL} is missing: run "make build" first`);
  etcd = scope.use(await startEtcd());
  empty = scope.use(await startEtcd());
  server = scope.use(await startOrchApiServer());
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  file = join(folder, 'export.json');
  const path = await server.callerConfig('admin tool');
  orch = { DATASTORE_TYPE: 'orch', ORCHCONFIG: path };
  [kv, second] = [openKv(etcd), openKv(empty)];
  inOrch = scope.use(openOrchStore({ from: 'file', path }));
});
afterAll(async () => scope.disposeAsync());

interface Ran {
  readonly status: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Keeps the tool out of the folders of this machine. */
function places(): Record<string, string> {
  return { NETPLUG_STATE_DIR: join(folder, 'state') };
}

async function ctl(env: Record<string, string>, ...args: string[]): Promise<Ran> {
  return new Promise((done) => {
    execFile(NETPLUGCTL, args, { env: { ...places(), ...env }, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}
const onKv = async (...args: string[]): Promise<Ran> => ctl({ KV_ENDPOINTS: etcd.url }, ...args);
const onOrch = async (...args: string[]): Promise<Ran> => ctl(orch, ...args);
const onSecond = async (...args: string[]): Promise<Ran> => ctl({ KV_ENDPOINTS: empty.url }, ...args);

function held(block: IpBlock, ordinal: number, node: NodeName): IpBlock {
  const attachment = { network: 'net', containerId: `c${String(ordinal)}`, ifName: 'eth0' };
  const id = `${node} ${String(block.cidr.base.value)} ${String(ordinal)}`;
  const at = '2026-01-01T00:00:00Z';
  return takeSlot(block, ordinal, { id, node, ...attachment, handle: handleOf(attachment), at, chosenBy: 'netconf' });
}

function endpointOn(pod: string, podUID: string): WorkloadEndpoint {
  const orchestrator = 'orch';
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: endpointName({ node: a, orchestrator, workload: pod, endpoint: 'eth0' }), namespace: 'shop' },
    spec: {
      orchestrator,
      node: a,
      network: 'net',
      containerID: 'c1',
      pod,
      podUID,
      endpoint: 'eth0',
      interfaceName: 'npl1',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.0.0.1/32'],
      profiles: [],
      ipam: 'netplug-ipam',
    },
  };
}

const PEER = { keepOriginalNextHop: false, sourceAddress: 'UseNodeIP' } as const;
const facts = { ipv4VXLANTunnelAddr: '10.0.0.2', vxlanTunnelMACAddr: '66:00:00:00:00:01', ipv4Address: '192.0.2.1/24' };

async function seed(): Promise<void> {
  const made = { apiVersion: 'netplug.io/v3', metadata: { name: 'one', labels: { team: 'x' } } } as const;
  const resources: AnyResource[] = [
    poolOf('blue', '10.0.0.0/16'),
    poolOf('six', 'fd00::/64'),
    { ...made, kind: 'IPReservation', spec: { reservedCIDRs: ['10.0.0.0/30'] } },
    { ...made, kind: 'BGPPeer', spec: { peerIP: '198.51.100.1', asNumber: 64_512, ...PEER } },
    { ...made, kind: 'NetworkSet', metadata: { ...made.metadata, namespace: 'shop' }, spec: { nets: ['10.9.0.0/16'] } },
    nodeOf(a, { rack: '7' }),
    nodeOf(gone),
  ];
  for (const resource of resources) await kv.createResource(resource, never);
  await kv.publishNode(a, facts, never);
  for (let index = 0; index < BLOCKS; index += 1) {
    const cidr = parseCidr(`10.0.${String(index >> 2)}.${String((index & 3) * 64)}/26`);
    const block = held(held(emptyBlock(cidr, index === 7 ? gone : a), 1, a), 9, b);
    await kv.commit([{ kind: 'create-block', block, pool: undefined }], never);
  }
  const uid = await server.putPod({ namespace: 'shop', name: 'web', node: a });
  for (const endpoint of [endpointOn('web', uid), endpointOn('left', 'nobody')]) {
    await kv.commit([{ kind: 'put-endpoint', endpoint }], never);
  }
  await Promise.all([server.putNode(a), server.putNode(b)]);
}

const blocksIn = async (store: Store): Promise<readonly IpBlock[]> =>
  (await store.listBlocks(never)).blocks.map(({ value }) => value);
const specsIn = async (store: Store, kind: AnyResource['kind']): Promise<unknown[]> =>
  (await store.listResources(kind, never)).resources.map(({ metadata, spec }) => ({
    name: metadata.name,
    labels: metadata.labels,
    spec,
  }));
const MOVED = ['IPPool', 'IPReservation', 'BGPPeer', 'NetworkSet'] as const;

describe('a cluster that moves from etcd to the API of the orchestrator', () => {
  beforeAll(seed);

  it('is exported once it is locked', async () => {
    expect(await onKv('datastore', 'export')).toMatchObject({ status: 64, stdout: '' });
    expect(await onKv('datastore', 'lock')).toMatchObject({
      status: 0,
      stdout: 'the datastore is locked\n',
      stderr: '',
    });
    expect((await onKv('version')).stdout).toContain('datastore: kvv3 reachable, locked\n');
    const ran = await onKv('datastore', 'export', '--output', file);
    expect(ran).toMatchObject({
      status: 0,
      stderr: expect.stringContaining(`${String(BLOCKS)} blocks, 2 endpoints`) as string,
    });
    expect((await onKv('datastore', 'export')).stdout.replace(/"exportedAt": .*/, '')).toBe(
      (await readFile(file, 'utf8')).replace(/"exportedAt": .*/, ''),
    );
  });

  it('prints with --dry-run what the user must do', async () => {
    const ran = await onOrch('datastore', 'import', '-f', file, '--dry-run');
    expect(ran).toMatchObject({ status: 0, stdout: expect.stringMatching(/^dry run: /) as string });
    expect(ran.stderr).toContain('note: node "node-a" lacks labels: kubectl label node node-a rack=7\n');
    expect(ran.stderr).toContain('note: node "node-gone" is missing in the orchestrator');
    expect(await blocksIn(inOrch)).toEqual([]);
  });

  it('is imported although the first import is killed', async () => {
    await killInTheMiddle(orch, inOrch, file);
    expect(await onOrch('datastore', 'unlock')).toMatchObject({ status: 73 });
    const ran = await onOrch('datastore', 'import', '-f', file);
    expect(ran).toMatchObject({ status: 0, stdout: expect.stringMatching(/^imported and read back: /) as string });
    expect(await blocksIn(inOrch)).toEqual(await blocksIn(kv));
    for (const kind of MOVED) expect(await specsIn(inOrch, kind)).toEqual(await specsIn(kv, kind));
    const endpoint = (await inOrch.listEndpoints(a, never)).endpoints.find(({ value }) => value.spec.pod === 'web');
    expect(endpoint?.value.spec).toMatchObject({ pod: 'web', containerID: 'c1', ipNetworks: ['10.0.0.1/32'] });
    const { bgp, ...tunnels } = (await inOrch.findResource({ kind: 'Node', name: a }, never))?.spec ?? {};
    expect({ ...tunnels, ipv4Address: bgp?.ipv4Address }).toEqual(facts);
    const [from, to] = await Promise.all(
      [kv, inOrch].map(async (each) => each.findResource(CLUSTER_INFORMATION_ID, never)),
    );
    expect(to?.spec).toEqual({ ...from?.spec, clusterType: 'orch' });
  });

  it('can be undone completely', async () => {
    expect(await onOrch('datastore', 'import', '-f', file, '--undo')).toMatchObject({ status: 0, stderr: '' });
    expect(await blocksIn(inOrch)).toEqual([]);
    for (const kind of [...MOVED, 'ClusterInformation'] as const) expect(await specsIn(inOrch, kind)).toEqual([]);
    expect((await inOrch.listEndpoints(undefined, never)).endpoints).toEqual([]);
    expect((await inOrch.findResource({ kind: 'Node', name: a }, never))?.spec).toEqual({});
    expect(await blocksIn(kv)).toHaveLength(BLOCKS);
  });

  it('refuses to continue or undo the import after another program changed a resource', async () => {
    expect(await onOrch('datastore', 'import', '-f', file)).toMatchObject({ status: 0 });
    const pools = '/apis/netplug.io/v3/ippools/blue';
    const patch = async (body: object): Promise<unknown> =>
      server.call('PATCH', pools, { type: 'application/merge-patch+json', body });
    await patch({ spec: { natOutgoing: true } });
    for (const more of [[], ['--undo']]) {
      expect(await onOrch('datastore', 'import', '-f', file, ...more)).toMatchObject({
        status: 73,
        stderr: expect.stringContaining('IPPool "blue" exists already and differs') as string,
      });
    }
    await patch({ spec: { natOutgoing: false } });
    expect(await onOrch('datastore', 'import', '-f', file)).toMatchObject({ status: 0 });
    expect(await onOrch('datastore', 'unlock')).toMatchObject({ status: 0, stdout: 'the datastore is unlocked\n' });
    expect(await onOrch('datastore', 'import', '-f', file, '--undo')).toMatchObject({ status: 73 });
  });

  it('moves back to an etcd', async () => {
    const back = join(folder, 'back.json');
    await onOrch('datastore', 'lock');
    expect(await onOrch('datastore', 'export', '--output', back)).toMatchObject({ status: 0 });
    await killInTheMiddle({ KV_ENDPOINTS: empty.url }, second, back);
    expect(await onSecond('datastore', 'import', '-f', back)).toMatchObject({ status: 0, stderr: '' });
    expect(await blocksIn(second)).toEqual(await blocksIn(kv));
    for (const kind of MOVED) expect(await specsIn(second, kind)).toEqual(await specsIn(kv, kind));
    expect((await second.listEndpoints(a, never)).endpoints).toHaveLength(2);
    expect((await second.findResource(CLUSTER_INFORMATION_ID, never))?.spec.clusterType).toBe('kv');
    expect(await onSecond('datastore', 'unlock')).toMatchObject({ status: 0 });
  });

  it('is written to by a tool of another version only with --allow-version-mismatch', async () => {
    const cluster = await second.findResource(CLUSTER_INFORMATION_ID, never);
    if (cluster === undefined) throw new Error('no ClusterInformation');
    await second.updateResource({ ...cluster, spec: { ...cluster.spec, netplugVersion: 'v3.27.99' } }, never);
    expect((await onSecond('version')).stdout).toContain(`Client Version: ${VERSION}\nCluster Version: v3.27.99\n`);
    expect(await onSecond('get', 'pools')).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^warning: /) as string,
    });
    const change = ['delete', 'ipreservation', 'one'];
    expect(await onSecond(...change)).toMatchObject({
      status: 79,
      stderr: expect.stringContaining('cli/version-mismatch') as string,
    });
    expect(await onSecond(...change, '--allow-version-mismatch')).toMatchObject({ status: 0 });
  });
});

describe('the API datastore through the kubeconfig of kubectl', () => {
  let env: Record<string, string>;
  let file: string;
  beforeAll(async () => {
    file = join(folder, 'contexts');
    const token = await server.callerToken('admin tool');
    const kubeconfig = {
      'current-context': 'stranger',
      clusters: [{ name: 'c', cluster: { server: server.url, 'certificate-authority': server.caFile } }],
      users: [
        { name: 'stranger', user: { token: 'unknown' } },
        { name: 'tool', user: { token } },
      ],
      contexts: ['stranger', 'tool'].map((user) => ({ name: user, context: { cluster: 'c', user } })),
    };
    await writeFile(file, JSON.stringify(kubeconfig));
    const bin = join(folder, 'bin');
    await mkdir(bin);
    await symlink(NETPLUGCTL, join(bin, 'kubectl-netplug'));
    env = { KUBECONFIG: [join(folder, 'no-such-file'), file].join(delimiter), PATH: bin };
  });
  const reached = {
    status: 0,
    stdout: expect.stringContaining('datastore: orch reachable') as string,
  };

  it('is reached with --context when the first file of KUBECONFIG does not exist', async () => {
    expect(await ctl(env, 'version', '--context', 'tool')).toMatchObject(reached);
    expect(await ctl(env, 'version')).toMatchObject({
      status: 77,
      stderr: expect.stringContaining('code: store/refused') as string,
    });
  });

  it('is reached with --kubeconfig when the variables name an etcd', async () => {
    const flags = ['--kubeconfig', file, '--context', 'tool'];
    expect(await ctl({ KV_ENDPOINTS: etcd.url }, ...flags, 'version')).toMatchObject(reached);
  });

  it('is reached by "kubectl netplug" with the flags behind the name of the plugin', async () => {
    const run = promisify(execFile)(program('kubectl'), ['netplug', 'version', '--context=tool'], { env });
    expect(await run).toMatchObject({ stdout: reached.stdout });
  });

  it('is refused with the known contexts when --context names another one', async () => {
    expect(await ctl(env, 'get', 'ippools', '--context', 'none')).toMatchObject({
      status: 78,
      stdout: '',
      stderr: expect.stringMatching(
        /there is no context "none" \(contexts: "stranger", "tool"\)\n(.*\n)*.*code: store\/config-invalid/,
      ) as string,
    });
  });
});

/** Kills an import when some, but not all, of its blocks are written. */
async function killInTheMiddle(env: Record<string, string>, store: Store, path: string): Promise<void> {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const child = spawn(NETPLUGCTL, ['datastore', 'import', '-f', path], {
      env: { ...places(), ...env },
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    await until(async () => (await blocksIn(store)).length > 0, 'some blocks are there');
    child.kill('SIGKILL');
    await ended;
    if ((await blocksIn(store)).length < BLOCKS) return;
    expect(await ctl(env, 'datastore', 'import', '-f', path, '--undo')).toMatchObject({ status: 0 });
  }
  throw new Error('the import was never met in the middle');
}

describe('a node whose datastore is locked', () => {
  let node: TestNode;
  beforeAll(async () => {
    node = await startNode();
    await node.seedPool('v4', '10.65.0.0/24');
  });
  afterAll(async () => node[Symbol.asyncDispose]());
  const tool = async (...args: string[]): Promise<Ran> =>
    node.run([NETPLUGCTL, ...args], { env: { KV_ENDPOINTS: String(node.netconf()['kv_endpoints']) } });

  it('keeps its pods, and neither assigns nor releases addresses until it is unlocked', async () => {
    const call = { containerId: 'c1', netns: (await node.pod()).path, conf: node.netconf() };
    expect((await node.cni('ADD', call)).status).toBe(0);
    await node.settled();
    expect(await tool('datastore', 'lock')).toMatchObject({
      status: 0,
      stdout: 'the datastore is locked\n',
      stderr: '',
    });
    const preallocated = [...(await node.records('ipam/blocks/')).values()].flatMap((block) =>
      Object.keys(block.preallocated ?? {}),
    );
    expect(preallocated).toEqual([]);

    const next = { ...call, containerId: 'c2', netns: (await node.pod()).path };
    expect((await node.cni('ADD', next)).json).toMatchObject({
      code: 11,
      msg: expect.stringContaining('the datastore is locked') as string,
      details: expect.stringContaining('store/locked') as string,
    });
    expect((await node.cni('STATUS', call)).json).toMatchObject({
      code: 50,
      msg: expect.stringContaining('the datastore is locked') as string,
    });
    expect((await node.cni('ADD', call)).status).toBe(0);
    expect((await node.cni('DEL', next)).status).toBe(0);

    expect((await node.cni('DEL', call)).json).toMatchObject({ code: 11 });
    expect(await node.hostLinks()).toEqual([]);
    expect(await node.heldAddresses()).toHaveLength(1);

    expect(await tool('datastore', 'unlock')).toMatchObject({ status: 0 });
    expect((await node.cni('DEL', call)).status).toBe(0);
    expect((await node.cni('ADD', next)).status).toBe(0);
    expect(await node.heldAddresses()).toHaveLength(1);
  });
});
