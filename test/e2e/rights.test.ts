// The plugin and the agent do all their work with exactly the rights of their roles, and use each of them: the API server
// notes what they ask for.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { blockObjectName } from '../../src/datastore/orch/names.ts';
import { PASSWORD_SECRET, type RoleName } from '../../src/install/cluster/rights/role-table.ts';
import { rightsOf } from '../../src/install/cluster/rights/roles.ts';
import { describeRight } from '../../src/model/right.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { type Asked, type Audit, newAudit } from '../support/audit.ts';
import { poolOf } from '../support/fixtures.ts';
import { type ApiServer, startApiServer } from '../support/kube.ts';
import { newLan } from '../support/lan.ts';
import type { TestNetns } from '../support/netns.ts';
import { AS_OTHER_NODE, type CniAnswer, type Json, startNode, type TestNode, until } from '../support/node.ts';

const NODE = 'node-a';
const OTHER = 'node-b';
/** Two blocks, so that the third node borrows. */
const POOL = poolOf('small', '10.66.0.0/29', { blockSize: 30 });

const scope = new AsyncDisposableStack();
let node: TestNode;
let server: ApiServer;
let audit: Audit;
/** Kubeconfigs of the plugin on the node, and on another one. */
let plugin: string;
let otherPlugin: string;

beforeAll(async () => {
  const lan = scope.use(await newLan());
  const dir = await mkdtemp(join(tmpdir(), 'netplug-rights-'));
  scope.defer(async () => rm(dir, { recursive: true, force: true }));
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  await lan.plugIn(node.host, 11);
  audit = await newAudit(dir, 'netplug-system');
  const at = { place: node, etcdUrl: 'http://127.0.0.1:2379', address: '127.0.0.1', port: 6443 };
  server = scope.use(await startApiServer({ at, flags: audit.flags }));
  for (const file of ['crds.yaml', 'rbac.yaml', 'admission.yaml', 'node-restriction.yaml'])
    await server.apply(await readFile(join(import.meta.dirname, '../../manifests', file), 'utf8'));
  await server.kubectl('wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all');
  await server.apply([POOL, nodeObject(NODE, '10.244.1.0/24'), nodeObject(OTHER, '10.244.2.0/24')]);
  [plugin = '', otherPlugin = ''] = await Promise.all(
    [NODE, OTHER].map(async (name) => configFor('netplug-cni', name)),
  );
});
afterAll(async () => scope.disposeAsync());

async function configFor(account: string, on: string): Promise<string> {
  return server.kubeconfigFor(await server.tokenFor(`netplug-system/${account}`, { node: on }));
}

function nodeObject(name: string, podCIDR: string): object {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } };
}

function conf(more: object = {}): Json {
  return node.netconf({
    kv_endpoints: undefined,
    datastore_type: 'orch',
    orch: { orchconfig: plugin },
    policy: { type: 'orch' },
    feature_control: { floating_ips: true },
    ...more,
  });
}

interface Pod {
  readonly name: string;
  readonly on?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly conf?: Json;
  readonly env?: Readonly<Record<string, string>>;
  /** Start of the container's id; the name of the pod unless given. */
  readonly container?: string;
  /** Whether the runtime tells the uid of the pod, as it does unless it is very old; true unless given. */
  readonly tellsUid?: boolean;
}

interface Attached {
  call(command: string, more?: object): Promise<CniAnswer>;
}

/** Makes the pod in the API and its network with ADD. */
async function attach({
  name,
  on = NODE,
  annotations = {},
  conf: own = conf(),
  env = {},
  container = name,
  tellsUid = true,
}: Pod): Promise<Attached> {
  const spec = { nodeName: on, containers: [{ name: 'main', image: 'none' }] };
  await server.apply([{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'default', annotations }, spec }]);
  const { uid } = (await server.get('pod', name)).metadata;
  const netns: TestNetns = await node.pod();
  const uidArgument = tellsUid ? `;K8S_POD_UID=${String(uid)}` : '';
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name}${uidArgument}`;
  const common = { containerId: container.padEnd(12, '0'), netns: netns.path, args, env };
  const call: Attached['call'] = async (command, more = {}) =>
    node.cni(command, { conf: { ...own, ...more }, ...common });
  expectDone(await call('ADD'));
  return { call };
}

/** The API server answers 429 to the first question about a kind whose definition is new. */
function notServedYet(cause: unknown): Json {
  if (String(cause).includes('TooManyRequests')) return { items: [] };
  throw cause;
}

function expectDone({ status, stdout, stderr }: CniAnswer): void {
  expect(status, `${stdout}${stderr}`).toBe(0);
}

/** What `node remove` leaves of a block that still has addresses of others. */
async function disown(cidr: string): Promise<void> {
  const name = blockObjectName(parseCidr(cidr));
  await server.kubectl('patch', 'ipblock', name, '--type=json', '--patch=[{"op":"remove","path":"/spec/node"}]');
}

const FLOATING = { 'cni.netplug/floatingIPs': '["192.0.2.9"]' };

/** Everything that a runtime asks for: with warnings, pod CIDRs, a borrowed address and blocks without an owner. */
async function everyVerb(suffix: string): Promise<void> {
  const first = await attach({ name: `first-${suffix}`, annotations: FLOATING });
  expectDone(await first.call('STATUS'));
  const other = await attach({
    name: `other-${suffix}`,
    on: OTHER,
    conf: conf({ nodename: OTHER, orch: { orchconfig: otherPlugin } }),
    env: AS_OTHER_NODE,
  });
  const more: Attached[] = [];
  // One more than its own block has.
  for (const index of [2, 3, 4, 5]) more.push(await attach({ name: `pod-${String(index)}-${suffix}` }));
  // The next sandbox of a pod, before the end of the one that it has.
  const again = await attach({ name: `pod-5-${suffix}`, container: `again-${suffix}` });
  const local = { type: 'host-local', subnet: 'usePodCidr', dataDir: join(node.dir, 'host-local') };
  // What the agent remembers of a pod is that of a uid: without one it asks again.
  const delegated = await attach({ name: `local-${suffix}`, conf: conf({ ipam: local }), tellsUid: false });
  expectDone(await delegated.call('DEL'));
  const [gone, ...kept] = more;
  const valid = kept.map((_, index) => ({
    containerID: `pod-${String(index + 3)}-${suffix}`.padEnd(12, '0'),
    ifname: 'eth0',
  }));
  expect(gone).toBeDefined();
  expectDone(await first.call('GC', { 'cni.dev/valid-attachments': valid }));
  for (const cidr of ['10.66.0.0/30', '10.66.0.4/30']) await disown(cidr);
  for (const pod of [first, other, ...more, again]) expectDone(await pod.call('DEL'));
}

function granted(...roles: readonly RoleName[]): ReadonlySet<string> {
  return new Set(rightsOf(roles).map(describeRight));
}

describe('the plugin, without an agent', () => {
  it('uses every right of its roles and requests nothing else [auth-rbac]', async () => {
    await everyVerb('alone');
    // The API server writes events of its own, about services.
    const events: readonly Json[] = (await server.get('events')).items;
    expect(events.filter(({ source }) => source.component === 'netplug')).toHaveLength(1);
    const asked: Asked = await audit.of('netplug-cni');
    expect([...asked.refused]).toEqual([]);
    expect([...asked.allowed].sort()).toEqual([...granted('netplug-cni-reader', 'netplug-cni-datastore')].sort());
  });
});

describe('the agent', () => {
  let agent: Agent;
  afterAll(async () => agent?.stop());

  it('uses every right of its roles and requests nothing else [auth-rbac]', async () => {
    const password = { secretKeyRef: { name: PASSWORD_SECRET, key: 'router' } };
    const peer = { peerIP: '172.31.0.99', asNumber: 64_999, password };
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: PASSWORD_SECRET, namespace: 'netplug-system' },
    };
    await server.apply([
      { ...secret, stringData: { router: 'correct horse' } },
      poolOf('routed', '10.67.0.0/24', { allowedUses: ['Tunnel'] }),
      { apiVersion: 'netplug.io/v3', kind: 'BGPPeer', metadata: { name: 'router' }, spec: peer },
    ]);
    const runDir = join(node.dir, 'agent');
    const own = await configFor('netplug-agent', NODE);
    const env = {
      DATASTORE_TYPE: 'orch',
      ORCHCONFIG: plugin,
      NETPLUG_ORCHCONFIG: own,
      NETPLUG_RUN_DIR: runDir,
      NETPLUG_CNI_ACCOUNT: 'netplug-cni',
      NETPLUG_CNI_CONF_DIR: join(node.dir, 'conf'),
    };
    const start = async (): Promise<Agent> => startAgent(node, { socket: node.socket, env });
    agent = await start();
    const reportedAt = async (): Promise<unknown> =>
      (await server.get('nodereports').catch(notServedYet)).items[0]?.spec.reportedAt;
    await until(async () => (await reportedAt()) !== undefined, 'the agent reports what it knows to be wrong');
    const first = await reportedAt();
    // The next one finds an older release.
    const version = { spec: { netplugVersion: 'v3.0.0' } };
    await server.kubectl(
      'patch',
      'clusterinformation',
      'default',
      '--type=merge',
      `--patch=${JSON.stringify(version)}`,
    );
    await agent.stop();
    agent = await start();
    const before = await audit.of('netplug-cni');
    await server.kubectl('label', 'node', NODE, 'rack=7');
    const rack = async (): Promise<unknown> => (await server.get('netplugnode', NODE)).metadata.labels?.rack;
    await until(async () => (await rack()) === '7', 'other nodes see the label of the Node');
    await everyVerb('served');
    const bird = async (): Promise<string> => node.exec('cat', join(runDir, 'bird/bird.conf'));
    await until(async () => (await bird()).includes('correct horse'), 'BIRD has the password');
    await until(async () => (await reportedAt()) !== first, 'the next agent reports again');
    await agent.settled();
    const asked = await audit.of('netplug-agent');
    expect([...asked.refused]).toEqual([]);
    const more = ['netplug-agent-passwords', 'netplug-agent-tokens'] as const;
    const roles = ['netplug-agent', 'netplug-agent-datastore', ...more] as const;
    expect([...asked.allowed].sort()).toEqual([...granted(...roles)].sort());
    // Only the calls for the other node were served without it, so the plugin has used no further right.
    const { allowed, refused } = await audit.of('netplug-cni');
    expect({ allowed, refused }).toEqual({ allowed: before.allowed, refused: before.refused });
  });
});
