// Policies of Kubernetes for pods that the standard plugins ptp and host-local connect, with real packets.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { type CniCall, startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { becomesReachable, isReached, type PolicedPod } from '../support/policed-node.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import { NETPLUGCTL } from '../support/built.ts';

const NODE = 'node-a';
const MERGE = 'application/merge-patch+json';
const CONF = {
  cniVersion: '1.0.0',
  name: 'foreign',
  type: 'ptp',
  ipam: { type: 'host-local', subnet: '10.88.0.0/24', routes: [{ dst: '0.0.0.0/0' }] },
};
const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let agent: Agent;
let env: Readonly<Record<string, string>>;
let web: PolicedPod;
let client: PolicedPod;
let other: PolicedPod;

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  await server.putNode(NODE);
  await server.putNamespace('shop');
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  env = {
    DATASTORE_TYPE: 'orch',
    ORCHCONFIG: await server.kubeconfigFor(await server.callerToken('agent'), { url }),
    NETPLUG_NETWORKING: 'policy',
    NETPLUG_INTERFACE_PREFIX: 'veth',
  };
  agent = scope.use(await startAgent(node, { env }));
  [web, client, other] = [await start('web'), await start('client'), await start('other')];
}, 180_000);
afterAll(async () => scope.disposeAsync());

function callOf(name: string): CniCall {
  return { plugin: 'ptp', containerId: `c-${name}`, conf: CONF };
}

/** Connects a pod that the API has, without its address there. */
async function connect(name: string, address?: string): Promise<PolicedPod> {
  const netns = await node.pod();
  const args = address === undefined ? {} : { args: `IgnoreUnknown=1;IP=${address}` };
  const { json, stderr, status } = await node.cni('ADD', { ...callOf(name), ...args, netns: netns.path });
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return { name: `shop/${name}`, netns, address: json.ips[0].address.split('/')[0] };
}

async function disconnect({ name, netns }: PolicedPod): Promise<void> {
  const { status, stderr } = await node.cni('DEL', { ...callOf(name.replace('shop/', '')), netns: netns.path });
  if (status !== 0) throw new Error(stderr);
}

/** Says where the pod is, as its kubelet does. */
async function report({ name, address }: Pick<PolicedPod, 'name' | 'address'>): Promise<void> {
  await server.call('PATCH', `/api/v1/namespaces/${name.replace('/', '/pods/')}/status`, {
    type: MERGE,
    body: { status: { phase: 'Running', podIP: address, podIPs: [{ ip: address }] } },
  });
}

async function start(app: string): Promise<PolicedPod> {
  await server.putPod({ namespace: 'shop', name: app, node: NODE, labels: { app } });
  const pod = await connect(app);
  await report(pod);
  return pod;
}

async function remove(name: string, graceSeconds: number): Promise<void> {
  await server.call('DELETE', `/api/v1/namespaces/shop/pods/${name}?gracePeriodSeconds=${String(graceSeconds)}`);
}

/** Reports whether a ping is answered within a tenth of a second. */
async function isPinged(from: PolicedPod, to: PolicedPod): Promise<boolean> {
  return from.netns.exec('ping', '-n', '-q', '-c', '1', '-W', '0.1', to.address).then(
    () => true,
    () => false,
  );
}

it('opens a pod once its address is reported, and not before', async () => {
  await becomesReachable(client, web, true);
  await server.putPod({ namespace: 'shop', name: 'late', node: NODE, labels: { app: 'late' } });
  const late = await connect('late');
  expect([await isReached(late, web), await isReached(web, late)]).toEqual([false, false]);
  // Probes of the kubelet reach it at any time.
  expect(await node.host.ping(late.address)).toBe(true);
  await report(late);
  await becomesReachable(late, web, true);
  await disconnect(late);
  await remove('late', 0);
});

it('enforces a NetworkPolicy of Kubernetes, and passes what it allows', async () => {
  await becomesReachable(other, web, true);
  await server.apply([
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'web', namespace: 'shop' },
      spec: {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }],
      },
    },
  ]);
  await until(async () => !(await isPinged(other, web)), 'the pod is isolated');
  expect(await isReached(other, web)).toBe(false);
  expect(await isReached(client, web)).toBe(true);
  expect(await isReached(web, other)).toBe(true);
});

it('gives the next pod with an address nothing of the pod before, which terminates still', async () => {
  await becomesReachable(client, web, true);
  await remove('client', 600);
  expect(await isReached(client, web)).toBe(true);
  await disconnect(client);
  await server.putPod({ namespace: 'shop', name: 'next', node: NODE, labels: { app: 'next' } });
  const next = await connect('next', client.address);
  expect(next.address).toBe(client.address);
  // Its address is not reported, and the API still has the other pod with it.
  expect([await isReached(next, web), await isReached(next, other)]).toEqual([false, false]);
  await report(next);
  await becomesReachable(next, other, true);
  expect(await isReached(next, web)).toBe(false);
  await remove('client', 0);
  await disconnect(next);
  await remove('next', 0);
  client = await start('client');
  await becomesReachable(client, web, true);
});

it('stays enforced while the agent is dead, also for pods that start meanwhile', async () => {
  await agent.stop('KILL');
  const isGone = async (): Promise<boolean> =>
    (await node.run(['pgrep', '--full', '^netplug-network'])).stdout.trim() === '';
  await until(isGone, 'the network process has ended');
  expect([await isReached(client, web), await isReached(other, web)]).toEqual([true, false]);
  const young = await start('young');
  expect(await isReached(young, other)).toBe(false);
  agent = scope.use(await startAgent(node, { env }));
  await becomesReachable(young, other, true);
  expect([await isReached(client, web), await isReached(other, web)]).toEqual([true, false]);
});

it('leaves an interface alone that is not of a pod, although its name begins with the prefix, and says so', async () => {
  await agent.stop('TERM');
  await node.exec('nft', 'delete', 'table', 'inet', 'netplug-policy');
  agent = scope.use(await startAgent(node, { env: { ...env, NETPLUG_INTERFACE_PREFIX: 'veth,up' } }));
  const rules = await node.exec('nft', 'list', 'chain', 'inet', 'netplug-policy', 'input-egress');
  expect(rules).toMatch(/iifname "up0" accept/);
  const status = await node.run([NETPLUGCTL, 'node', 'status'], { env: { NETPLUG_SOCKET: agent.socket } });
  expect(status.stdout).toContain('interface "up0" begins with NETPLUG_INTERFACE_PREFIX');
  await becomesReachable(client, web, true);
  expect(await isReached(other, web)).toBe(false);
});
