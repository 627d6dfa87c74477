// Policies on nodes that another plugin connects: static routes of the test have its place.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { type Lan, newLan } from '../support/lan.ts';
import { type CniCall, type Json, startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { becomesReachable, isReached, type PolicedPod } from '../support/policed-node.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const MERGE = 'application/merge-patch+json';
const PARTS = { 'node-a': { number: 2, cidr: '10.244.1.0/24' }, 'node-b': { number: 3, cidr: '10.244.2.0/24' } };
type Name = keyof typeof PARTS;
const NAMES: readonly Name[] = ['node-a', 'node-b'];

interface Member {
  readonly node: TestNode;
  readonly conf: object;
  readonly env: Readonly<Record<string, string>>;
  agent: Agent;
}

const scope = new AsyncDisposableStack();
const members = new Map<Name, Member>();
let server: OrchApiServer;
let lan: Lan;
let client: PolicedPod;
let other: PolicedPod;
let web: PolicedPod;

beforeAll(async () => {
  lan = scope.use(await newLan());
  server = scope.use(await startOrchApiServer());
  for (const name of NAMES) members.set(name, await startMember(name));
  await server.putNamespace('shop');
  client = await add('node-a', 'client', { app: 'client' });
  other = await add('node-a', 'other', { app: 'other' });
  web = await add('node-b', 'web', { app: 'web' });
}, 180_000);
afterAll(async () => scope.disposeAsync());

async function startMember(name: Name): Promise<Member> {
  const { number, cidr } = PARTS[name];
  const node = scope.use(await startNode({ name, mode: 'standalone' }));
  await lan.plugIn(node.host, number);
  await node.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1');
  for (const each of NAMES.filter((other) => other !== name)) {
    const to = PARTS[each];
    await node.exec('ip', 'route', 'add', to.cidr, 'via', `172.31.0.${String(to.number)}`);
  }
  await server.putNode(name);
  await server.call('PATCH', `/api/v1/nodes/${name}`, {
    type: MERGE,
    body: { spec: { podCIDR: cidr, podCIDRs: [cidr] } },
  });
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  const env = {
    DATASTORE_TYPE: 'orch',
    ORCHCONFIG: orchconfig,
    NETPLUG_NETWORKING: 'policy',
    USE_POD_CIDR: 'true',
  };
  const conf = node.netconf({
    datastore_type: 'orch',
    policy: { type: 'orch' },
    orch: { orchconfig },
    ipam: { type: 'host-local', subnet: 'usePodCidr' },
  });
  return { node, conf, env, agent: scope.use(await startAgent(node, { env })) };
}

function member(name: Name): Member {
  const found = members.get(name);
  if (found === undefined) throw new Error(`${name} was not started`);
  return found;
}

async function add(name: Name, pod: string, labels: Record<string, string>): Promise<PolicedPod> {
  const { node, conf, agent } = member(name);
  await server.putPod({ namespace: 'shop', name: pod, node: name, labels });
  const netns = await node.pod();
  const call: CniCall = {
    containerId: `c-${pod}`,
    args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${pod}`,
    conf,
    env: { NETPLUG_SOCKET: agent.socket },
    netns: netns.path,
  };
  const { json, stderr, status } = await node.cni('ADD', call);
  if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
  return { name: `shop/${pod}`, netns, address: json.ips[0].address.split('/')[0] };
}

it('connects pods with addresses of their pod CIDR, and leaves routes, tunnels, NAT and NetworkUnavailable to the other plugin', async () => {
  expect([client.address, web.address]).toEqual([
    expect.stringMatching(/^10\.244\.1\./),
    expect.stringMatching(/^10\.244\.2\./),
  ]);
  expect(await isReached(client, web)).toBe(true);
  for (const name of NAMES) {
    const { node } = member(name);
    expect(await node.host.ip('route', 'show', 'proto', '118')).toEqual([]);
    expect((await node.host.ip('link', 'show')).map(({ ifname }) => String(ifname))).not.toContainEqual(
      expect.stringContaining('netplug'),
    );
    const tables = await node.exec('nft', 'list', 'tables');
    expect(tables.match(/netplug-\w+/g)?.toSorted()).toEqual(['netplug-pods', 'netplug-policy']);
    expect((await node.run(['cat', '/var/lib/netplug/nodename'])).stdout).toBe(`${name}\n`);
    const { status, metadata } = await server.call('GET', `/api/v1/nodes/${name}`);
    const types = (status.conditions ?? []).map(({ type }: Json) => type);
    expect(types).not.toContain('NetworkUnavailable');
    expect(metadata.annotations).toMatchObject({
      'netplug/IPv4Address': `172.31.0.${String(PARTS[name].number)}/24`,
    });
  }
});

it('enforces policies of pods on another node, also while the agent is dead', async () => {
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
  // The addresses of pods come from their status, which only kubelets write.
  for (const [pod, { address }] of Object.entries({ client, other, web }))
    await server.call('PATCH', `/api/v1/namespaces/shop/pods/${pod}/status`, {
      type: MERGE,
      body: { status: { phase: 'Running', podIP: address, podIPs: [{ ip: address }] } },
    });
  await becomesReachable(other, web, false);
  await becomesReachable(client, web, true);
  const far = member('node-b');
  await far.agent.stop('KILL');
  const isGone = async (): Promise<boolean> =>
    (await far.node.run(['pgrep', '--full', '^netplug-network'])).stdout.trim() === '';
  await until(isGone, 'the network process has ended');
  expect([await isReached(client, web), await isReached(other, web)]).toEqual([true, false]);
  far.agent = scope.use(await startAgent(far.node, { env: far.env }));
  expect([await isReached(client, web), await isReached(other, web)]).toEqual([true, false]);
});
