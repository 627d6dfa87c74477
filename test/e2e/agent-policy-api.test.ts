// Policies of Kubernetes on a node whose datastore is the API, with real packets.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { poolOf } from '../support/fixtures.ts';
import type { CniCall } from '../support/node.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { becomesReachable, isReached, type PolicedPod } from '../support/policed-node.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const NODE = 'node-a';
const MERGE = 'application/merge-patch+json';
const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let agent: Agent;
let conf: object;

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  await server.putNode(NODE);
  await server.apply([poolOf('v4', '10.65.0.0/16')]);
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  agent = scope.use(await startAgent(node, { env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig } }));
  conf = node.netconf({ datastore_type: 'orch', policy: { type: 'orch' }, orch: { orchconfig } });
}, 180_000);
afterAll(async () => scope.disposeAsync());

const pathOf = (name: string): string => `/api/v1/namespaces/${name.replace('/', '/pods/')}`;

function callOf(name: string): CniCall {
  const [namespace = '', pod = ''] = name.split('/');
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${pod}`;
  return { containerId: `c-${namespace}-${pod}`, args, conf, env: { NETPLUG_SOCKET: agent.socket } };
}

async function add(name: string, labels: Record<string, string>, more: Partial<CniCall> = {}): Promise<PolicedPod> {
  const [namespace = '', pod = ''] = name.split('/');
  await server.putPod({ namespace, name: pod, node: NODE, labels });
  return connect(name, { ...callOf(name), ...more });
}

async function connect(name: string, call: CniCall): Promise<PolicedPod> {
  const netns = await node.pod();
  const { json, stderr, status } = await node.cni('ADD', { ...call, netns: netns.path });
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return { name, netns, address: json.ips[0].address.split('/')[0] };
}

it('enforces policies of Kubernetes from the first pod on, and follows labels of pods and namespaces', async () => {
  await server.putNamespace('shop');
  await server.putNamespace('guests');
  await server.apply([
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'web', namespace: 'shop' },
      spec: {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [
          { from: [{ podSelector: { matchLabels: { app: 'client' } } }] },
          { from: [{ namespaceSelector: { matchLabels: { team: 'friends' } } }] },
        ],
      },
    },
  ]);
  const web = await add('shop/web', { app: 'web' });
  const client = await add('shop/client', { app: 'client' });
  const other = await add('shop/other', { app: 'other' });
  const guest = await add('guests/guest', { app: 'client' });
  // Policies are in force when ADD returns.
  expect(await isReached(client, web)).toBe(true);
  expect(await isReached(other, web)).toBe(false);
  expect(await isReached(guest, web)).toBe(false);
  expect(await isReached(web, other)).toBe(true);

  await server.call('PATCH', pathOf('shop/other'), { type: MERGE, body: { metadata: { labels: { app: 'client' } } } });
  await becomesReachable(other, web, true);
  const labels = { metadata: { labels: { team: 'friends' } } };
  await server.call('PATCH', '/api/v1/namespaces/guests', { type: MERGE, body: labels });
  await becomesReachable(guest, web, true);

  // A pod that has finished stays a peer as long as it has its address, with the labels that it had last.
  await server.call('PATCH', `${pathOf('shop/client')}/status`, {
    type: MERGE,
    body: { status: { phase: 'Succeeded' } },
  });
  await server.call('PATCH', pathOf('shop/other'), { type: MERGE, body: { metadata: { labels: { app: 'none' } } } });
  await becomesReachable(other, web, false);
  expect(await isReached(client, web)).toBe(true);
});

it('knows the interfaces of pods after a restart, without losing a packet, and stays enforced', async () => {
  const web = await add('shop/web2', { app: 'web' });
  const client = await add('shop/client2', { app: 'client' });
  const stranger = await add('shop/stranger', { app: 'stranger' });
  const ping = client.netns.exec('ping', '-n', '-q', '-c', '1500', '-i', '0.01', '-W', '1', web.address);
  await agent.stop('KILL');
  expect(await isReached(stranger, web)).toBe(false);
  const { orch } = conf as { readonly orch: { readonly orchconfig: string } };
  agent = scope.use(await startAgent(node, { env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orch.orchconfig } }));
  await sleep(1000);
  expect(await isReached(stranger, web)).toBe(false);
  expect(await ping).toMatch(/1500 packets transmitted, 1500 (packets )?received/);
});

it('writes an event on a pod whose policies deny connections, once for a rule however often it denies', async () => {
  await server.putNamespace('strangers');
  const web = await add('shop/web3', { app: 'web' });
  const guest = await add('strangers/guest', { app: 'guest' });
  const path = '/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name=web3,reason=NetplugPolicyDenied';
  const events = async (): Promise<readonly Record<string, unknown>[]> => {
    const { items } = (await server.call('GET', path)) as { readonly items: readonly Record<string, unknown>[] };
    return items;
  };
  for (let attempt = 0; attempt < 3; attempt += 1) expect(await isReached(guest, web)).toBe(false);
  await until(async () => (await events()).length > 0, 'the event is written');
  const { uid } = ((await server.call('GET', pathOf('shop/web3'))) as { readonly metadata: { readonly uid: string } })
    .metadata;
  expect(await events()).toEqual([
    expect.objectContaining({
      type: 'Warning',
      involvedObject: expect.objectContaining({ kind: 'Pod', uid }),
      // The name of a pod of another namespace is not in it.
      message: `Denied ICMP type 8 from ${guest.address}: no rule matches of Kubernetes NetworkPolicy shop/web: what policies that apply do not allow is denied. See: netplugctl policy why ${guest.address} shop/web3 --protocol ICMP`,
    }),
  ]);
});

it('knows other interfaces of pods and containers without a pod after a restart, also without an agent in between', async () => {
  const profile = { apiVersion: 'netplug.io/v3', kind: 'Profile', metadata: { name: 'k8s-pod-network' } };
  await server.apply([{ ...profile, spec: { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] } }]);
  const client = await add('shop/client3', { app: 'client' });
  const stranger = await add('shop/stranger3', { app: 'stranger' });
  const lone: CniCall = { ...callOf('-/lone'), args: '' };
  const start = async (): Promise<void> => {
    const { orch } = conf as { readonly orch: { readonly orchconfig: string } };
    agent = scope.use(await startAgent(node, { env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orch.orchconfig } }));
  };
  const web = await add('shop/web-net1', { app: 'web' }, { ifName: 'net1' });
  const container = await connect('container', lone);
  await agent.stop('KILL');
  const late = await add('shop/web-net1-late', { app: 'web' }, { ifName: 'net1' });
  expect(await isReached(client, late)).toBe(false);
  await start();
  for (const pod of [web, late]) {
    await becomesReachable(client, pod, true);
    expect(await isReached(stranger, pod)).toBe(false);
  }
  await becomesReachable(client, container, true);
  await node.cni('DEL', { ...callOf('shop/web-net1'), ifName: 'net1' });
  await node.cni('DEL', lone);
  await agent.stop('KILL');
  await start();
  await becomesReachable(client, late, true);
});
