// What an agent costs the API server while nothing happens that it needs to know. The benchmark row `watches-orch` has the
// figures with many nodes.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { type Agent, startAgent } from '../support/agent.ts';
import { addedWatches, requestsOf, trafficDuring, type Watches, watchesOf } from '../support/api-traffic.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { startNode, type TestNode } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const NODE = 'node-a';
const OTHERS = ['node-b', 'node-c', 'node-d'];
const merge = 'application/merge-patch+json';
/** Of each Node, as a real one has it. */
const NODE_BYTES = 10_000;
const WINDOW_MS = 12_000;
const HEARTBEATS = 20;
const PODS = 12;

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let proxy: TcpProxy;
let without: Watches;
let agent: Agent;
let orchconfig: string;

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  for (const name of [NODE, ...OTHERS]) await server.putNode(name);
  for (const name of OTHERS) await heartbeat(name, { images: [{ names: ['x'.repeat(NODE_BYTES)] }] });
  await server.apply([poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' })]);
  proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  without = await watchesOf(server);
  agent = scope.use(await agentWith('off'));
});
afterAll(async () => scope.disposeAsync());

async function agentWith(policy: 'off' | 'auto'): Promise<Agent> {
  return startAgent(node, { env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig, NETPLUG_POLICY: policy } });
}

/** Returns the watches that both processes of the agent hold. */
async function agentWatches(): Promise<ReturnType<typeof addedWatches>> {
  return addedWatches(without, await watchesOf(server));
}

async function networkPid(): Promise<string> {
  const pids = await node.exec('pgrep', '--parent', String(agent.pid), '--full', '^netplug-network');
  return pids.split('\n')[0] ?? '';
}

/** Calls ADD for a pod of \`policy.type\` "orch" and returns its address. */
async function add(name: string): Promise<string> {
  const pod = { namespace: 'shop', name };
  const uid = await server.putPod({ ...pod, node: NODE });
  return attach(name, uid);
}

async function attach(name: string, uid: string): Promise<string> {
  const { path: netns } = await node.pod();
  const conf = node.netconf({
    datastore_type: 'orch',
    kv_endpoints: undefined,
    orch: { orchconfig },
    policy: { type: 'orch' },
  });
  const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name};K8S_POD_UID=${uid}`;
  const added = await node.cni('ADD', { containerId: name, netns, conf, args, env: { NETPLUG_SOCKET: agent.socket } });
  if (added.status !== 0) throw new Error(`ADD failed: ${JSON.stringify(added.json)} ${added.stderr}`);
  return added.json.ips[0].address;
}

async function heartbeat(name: string, more: object = {}): Promise<void> {
  const ready = { type: 'Ready', status: 'True', lastHeartbeatTime: new Date().toISOString().replace(/\.\d+/, '') };
  const body = { status: { conditions: [ready], ...more } };
  await server.call('PATCH', `/api/v1/nodes/${name}/status`, { type: merge, body });
}

async function heartbeats(): Promise<void> {
  for (let beat = 0; beat < HEARTBEATS; beat += 1) {
    for (const name of OTHERS) await heartbeat(name);
    await sleep(WINDOW_MS / HEARTBEATS);
  }
}

describe('an agent on the API datastore', () => {
  it('serves a pod of policy.type "orch", with annotations and addresses from the API', async () => {
    expect(await add('web')).toMatch(/^10\.65\./);
    const route = async (): Promise<string> => node.exec('ip', 'route', 'show', 'proto', '118');
    await expect.poll(route, { timeout: 60_000 }).toContain('blackhole 10.65.');
  });

  it('reads back hardly any of the blocks that it writes', async () => {
    const count = async (verb: 'GET' | 'PUT'): Promise<number> => requestsOf(server, { verb, resource: 'ipblocks' });
    const [reads, writes] = [await count('GET'), await count('PUT')];
    for (let pod = 0; pod < PODS; pod += 1) {
      await add(`pod-${String(pod)}`);
      // Pods that come in quick succession share a write.
      await agent.settled();
    }
    const written = (await count('PUT')) - writes;
    expect(written).toBeGreaterThanOrEqual(PODS / 2);
    // Some answers come later than the watch, on a busy machine.
    expect((await count('GET')) - reads).toBeLessThan((3 * written) / 4);
  });

  it('has at most one watch of each kind without policies, and of other nodes only of their NetplugNodes', async () => {
    const watches = await agentWatches();
    expect(watches).toMatchObject({ ippools: 1, ipblocks: 1, nodes: 1, netplugnodes: 1, pods: 1, namespaces: 1 });
    expect(watches).toMatchObject({ workloadendpoints: 1 });
    expect(Object.entries(watches).filter(([, count]) => count > 1)).toEqual([]);
  });

  it('has at most one watch of each kind after its network process was replaced', async () => {
    await node.exec('kill', '-KILL', await networkPid());
    await expect
      .poll(async () => (await agent.ask('/metrics')).body, { timeout: 60_000 })
      .toMatch(/^netplug_network_restarts_total 1$/m);
    await agent.ready();
    await expect
      .poll(agentWatches, { timeout: 60_000 })
      .toMatchObject({ ippools: 1, ipblocks: 1, nodes: 1, netplugnodes: 1 });
  });

  it('has one connection for all requests and watches of each of its two processes', async () => {
    await expect.poll(() => proxy.connections, { timeout: 60_000 }).toBe(2);
  });

  it('receives no heartbeat of other nodes', async () => {
    const published = await server.call('GET', `/apis/netplug.io/v3/netplugnodes/${NODE}`);
    expect(published.spec.bgp.ipv4Address).toMatch(/^198\.18\./);
    const { bytes, connections } = await trafficDuring(proxy, heartbeats);
    // Bookmarks, probes and a comparison of the own node; the heartbeats alone are fifteen times as much.
    expect(bytes).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(4 * NODE_BYTES);
    expect(connections).toBe(2);
    expect(OTHERS.length * HEARTBEATS * NODE_BYTES).toBeGreaterThan(500_000);
  });

  it('accepts tunnel packets of another node as soon as its agent has published its address', async () => {
    await using store = openOrchStore({ from: 'file', path: server.kubeconfig });
    const facts = { ipv4Address: '198.18.99.1/15', vxlanTunnelMACAddr: '0a:00:00:00:00:01' };
    await store.publishNode(nodeName('node-b'), facts, new AbortController().signal);
    const rules = async (): Promise<string> => node.exec('nft', 'list', 'ruleset');
    await expect.poll(rules, { timeout: 60_000 }).toContain('198.18.99.1');
  });
});

describe('an agent that enforces policies on the API datastore', () => {
  const kinds = {
    pods: 1,
    workloadendpoints: 1,
    namespaces: 1,
    serviceaccounts: 1,
    endpointslices: 1,
    networkpolicies: 2,
    ipblocks: 1,
  };

  beforeAll(async () => {
    await agent[Symbol.asyncDispose]();
    agent = scope.use(await agentWith('auto'));
  });

  /** Policies are both a kind of Kubernetes and one of netplug. */
  async function becomesOneOfEachKind(): Promise<void> {
    await expect.poll(agentWatches, { timeout: 60_000 }).toMatchObject(kinds);
    const { networkpolicies: _, ...others } = await agentWatches();
    expect(Object.entries(others).filter(([, count]) => count > 1)).toEqual([]);
  }

  it('has at most one watch of each kind after the first pod has switched policies on', async () => {
    await expect.poll(agentWatches, { timeout: 60_000 }).toMatchObject({ workloadendpoints: 1, ipblocks: 1 });
    expect(await agentWatches()).not.toHaveProperty('serviceaccounts');
    expect(await add('first')).toMatch(/^10\.65\./);
    await becomesOneOfEachKind();
  });

  it('serves calls while its network process is replaced, and has one watch of each kind after that', async () => {
    await node.exec('kill', '-KILL', await networkPid());
    expect(await add('second')).toMatch(/^10\.65\./);
    await becomesOneOfEachKind();
  });

  it('sees the present annotations of a known pod while its network process hangs', async () => {
    await server.apply([poolOf('z4', '10.66.0.0/16')]);
    const uid = await server.putPod({ namespace: 'shop', name: 'third', node: NODE });
    const pid = await networkPid();
    await node.exec('kill', '-STOP', pid);
    // The process that serves calls watches the pods of the node itself.
    await expect.poll(agentWatches, { timeout: 60_000 }).toMatchObject({ pods: 2 });
    const annotations = { 'cni.netplug/ipv4pools': '["z4"]' };
    await server.call('PATCH', '/api/v1/namespaces/shop/pods/third', {
      type: merge,
      body: { metadata: { annotations } },
    });
    expect(await attach('third', uid)).toMatch(/^10\.66\./);
    await node.exec('kill', '-CONT', pid);
    await becomesOneOfEachKind();
  });

  it('follows pods of the node through its network process', async () => {
    const uid = await server.putPod({ namespace: 'shop', name: 'fourth', node: NODE });
    const annotations = { 'cni.netplug/ipv4pools': '["z4"]' };
    await server.call('PATCH', '/api/v1/namespaces/shop/pods/fourth', {
      type: merge,
      body: { metadata: { annotations } },
    });
    expect(await attach('fourth', uid)).toMatch(/^10\.66\./);
    const recorded = async (): Promise<string> => {
      const { items } = await server.call('GET', '/apis/netplug.io/v3/workloadendpoints');
      return items
        .flatMap(({ spec }: { spec: { pod: string; ipNetworks: string[] } }) =>
          spec.pod === 'fourth' ? spec.ipNetworks : [],
        )
        .join();
    };
    await expect.poll(recorded, { timeout: 60_000 }).toMatch(/^10\.66\./);
    expect(await agentWatches()).toMatchObject({ pods: 1, workloadendpoints: 1 });
  });

  it('says that the policy watch is lost while the API server is down, and has one watch of each kind after that', async () => {
    const readyz = async (): Promise<string> => (await agent.ask('/readyz')).body;
    await server.stop();
    await expect.poll(readyz, { timeout: 60_000 }).toContain('policy: the policy watch is lost: ');
    await server.start();
    await expect.poll(readyz, { timeout: 60_000 }).not.toContain('policy');
    await becomesOneOfEachKind();
  });
});
