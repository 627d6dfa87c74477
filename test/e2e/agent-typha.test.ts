// An agent that follows through netplug-typha what every node follows: real programs, a real API server, real packets.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { addedWatches, type Watches, watchesOf } from '../support/api-traffic.ts';
import { BUILT } from '../support/built.ts';
import { poolOf } from '../support/fixtures.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { becomesReachable, isReached, type PolicedPod } from '../support/policed-node.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { startTyphaServer, type TyphaServer, typhaToken } from '../support/typha-process.ts';
import { until } from '../support/until.ts';

const NODE = 'node-a';
const MERGE = 'application/merge-patch+json';
/** What the agents' account keeps with the fan-out; the others are what every node follows. */
const KEPT = ['netplug-agent-fanned-out', 'netplug-agent-servers'];
const DENY = { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] };
const POLICIES = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies';

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let typha: TyphaServer;
let agent: Agent;
let conf: object;
/** Watches before there was a server of netplug-typha, and with it alone. */
let ofNone: Watches;
let ofServer: Watches;
/** Pods that were added to learn from which pool they are. */
let adds = 0;
let server1: string;
let agentEnv: Readonly<Record<string, string>>;

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  await server.putNode(NODE);
  await server.apply([poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' })]);
  await server.call('DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/netplug-agent-datastore');
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  server1 = await server.kubeconfigFor(await server.tokenFor('netplug-system/netplug-typha'), { url });
  ofNone = await watchesOf(server);
  typha = await startTyphaServer(node, { name: 'typha-1-a', port: 5473, orchconfig: server1 });
  scope.defer(async () => typha.stop('KILL'));
  const token = join(node.dir, 'typha-token');
  writeFileSync(token, await typhaToken(server, NODE));
  ofServer = await settledWatches();
  agentEnv = { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig, NETPLUG_TYPHA: 'on', NETPLUG_TYPHA_TOKEN: token };
  agent = await startAgent(node, { env: agentEnv });
  scope.defer(async () => agent.stop());
  conf = node.netconf({ datastore_type: 'orch', policy: { type: 'orch' }, orch: { orchconfig } });
}, 180_000);
afterAll(async () => scope.disposeAsync());

/** The watches that the server has once it holds one for each of its topics. */
async function settledWatches(): Promise<Watches> {
  let found = await watchesOf(server);
  await until(async () => {
    const last = found;
    found = await watchesOf(server);
    return isDeepStrictEqual(last, found) && (found.get('networksets') ?? 0) > 0;
  }, 'the server watches all of its topics');
  return found;
}

async function add(name: string): Promise<PolicedPod> {
  await server.putPod({ namespace: 'shop', name, node: NODE, labels: { app: name } });
  const netns = await node.pod();
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name}`;
  const call = { containerId: `c-${name}`, args, conf, env: { NETPLUG_SOCKET: agent.socket }, netns: netns.path };
  const { json, stderr, status } = await node.cni('ADD', call);
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return { name, netns, address: json.ips[0].address.split('/')[0] };
}

async function addressOfNext(): Promise<string> {
  adds += 1;
  return (await add(`next-${String(adds)}`)).address;
}

async function deny(): Promise<void> {
  await server.call('POST', POLICIES, { body: { metadata: { name: 'closed' }, spec: DENY } });
}

async function status(): Promise<string> {
  return (await node.run([join(BUILT, 'netplugctl'), 'node', 'status', '--socket', agent.socket])).stdout;
}

let web: PolicedPod;
let db: PolicedPod;

it('enforces policies of Kubernetes with the rights that it keeps, and says who serves it', async () => {
  [web, db] = [await add('web'), await add('db')];
  await becomesReachable(web, db, true);
  await deny();
  await becomesReachable(web, db, false);
  await server.call('DELETE', `${POLICIES}/closed`);
  await becomesReachable(web, db, true);
  expect(await status()).toMatch(/^netplug-typha: typha-1-a since .*, heard \d.* s ago, 0 moves$/m);
  const { items } = await server.call('GET', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings');
  const bound = items.filter(({ subjects = [] }: { subjects?: { name: string }[] }) =>
    subjects.some(({ name }) => name === 'netplug-agent'),
  );
  expect(bound.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).toEqual(
    expect.arrayContaining(KEPT.slice(0, 1)),
  );
});

const OWN = { nodes: 1, pods: 1, workloadendpoints: 1 };
const FOR_CALLS = {
  clusterinformations: 1,
  ipamconfigurations: 1,
  ipblocks: 1,
  ippools: 1,
  ipreservations: 1,
  namespaces: 1,
};

it('watches at the API server its Node, and the pods and endpoints of it, and nothing else', async () => {
  await expect.poll(async () => addedWatches(ofServer, await watchesOf(server))).toEqual(OWN);
});

it('takes what an administrator changes into its calls all the same', async () => {
  const pools = '/apis/netplug.io/v3/ippools';
  await server.call('PATCH', `${pools}/v4`, { body: { spec: { disabled: true } }, type: MERGE });
  await server.apply([poolOf('other', '10.66.0.0/16', { vxlanMode: 'Always' })]);
  await expect.poll(addressOfNext).toMatch(/^10\.66\./);
  await server.call('PATCH', `${pools}/v4`, { body: { spec: { disabled: false } }, type: MERGE });
  await server.call('PATCH', `${pools}/other`, { body: { spec: { disabled: true } }, type: MERGE });
  await expect.poll(addressOfNext).toMatch(/^10\.65\./);
});

it('keeps its policies while no server is there, serves calls, and follows the next one', async () => {
  await deny();
  await becomesReachable(web, db, false);
  await typha.stop('KILL');
  await until(async () => (await status()).includes('no server serves this node'), 'it says that it has no server');
  expect(await isReached(web, db)).toBe(false);
  expect((await agent.ask('/readyz')).status).toBe(200);
  // What calls need is followed directly from now on.
  await expect.poll(async () => addedWatches(ofNone, await watchesOf(server))).toEqual({ ...OWN, ...FOR_CALLS });
  const late = await add('late');
  expect(late.address).toMatch(/^10\.65\./);
  typha = await startTyphaServer(node, { name: 'typha-2-a', port: 5474, orchconfig: server1 });
  await until(async () => (await status()).includes('typha-2-a since'), 'it follows the next server');
  await server.call('DELETE', `${POLICIES}/closed`);
  await becomesReachable(web, db, true);
});

it('moves to another server before the one that it has ends, without a moment without one', async () => {
  await using next = await startTyphaServer(node, { name: 'typha-3-a', port: 5475, orchconfig: server1 });
  await typha.stop('TERM');
  expect(await status()).toContain('typha-3-a since');
  expect(agent.log()).not.toContain('server lost, server=typha-2-a');
  await deny();
  await becomesReachable(web, db, false);
  expect(await next.ask('/metrics')).toContain('netplug_typha_clients{release="');
});

it('follows another server when the one that it has hangs, and says so', async () => {
  await using next = await startTyphaServer(node, { name: 'typha-4-a', port: 5476, orchconfig: server1 });
  await using after = await startTyphaServer(node, { name: 'typha-5-a', port: 5477, orchconfig: server1 });
  await until(async () => /typha-[45]-a since/.test(await status()), 'it has one of the two servers');
  const [hung, other] = (await status()).includes('typha-4-a since') ? [next, after] : [after, next];
  await hung.pause();
  await until(async () => (await status()).includes(`${other.name} since`), 'it has the other one');
  expect(agent.log()).toContain(`server lost server=${hung.name} reason="it is silent"`);
  expect(agent.log()).not.toContain('network process exited');
  await server.call('DELETE', `${POLICIES}/closed`);
  await becomesReachable(web, db, true);
});
