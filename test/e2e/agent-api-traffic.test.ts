// What an agent costs the API server while nothing happens that it needs to know. The benchmark row `watches-orch` has the
// figures with many nodes.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inside } from '../../scripts/bench/inside.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import { startAgent } from '../support/agent.ts';
import { addedWatches, trafficDuring, type Watches, watchesOf } from '../support/api-traffic.ts';
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

const scope = new AsyncDisposableStack();
let server: OrchApiServer;
let node: TestNode;
let proxy: TcpProxy;
let without: Watches;

beforeAll(async () => {
  node = scope.use(await startNode({ name: NODE, mode: 'standalone' }));
  server = scope.use(await startOrchApiServer());
  for (const name of [NODE, ...OTHERS]) await server.putNode(name);
  for (const name of OTHERS) await heartbeat(name, { images: [{ names: ['x'.repeat(NODE_BYTES)] }] });
  await server.apply([poolOf('v4', '10.65.0.0/16', { vxlanMode: 'Always' })]);
  proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  without = await watchesOf(server);
  scope.use(await startAgent(node, { env: { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig } }));
}, 120_000);
afterAll(async () => scope.disposeAsync());

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
  it('watches no kind more often than it has processes, and of other nodes only their NetplugNodes', async () => {
    const watches = addedWatches(without, await watchesOf(server));
    expect(watches).toMatchObject({ netplugnodes: 1, ippools: expect.any(Number) as number });
    // One follows what calls need, the other what the network of the node needs.
    expect(Object.values(watches).filter((count) => count > 2)).toEqual([]);
  });

  it('has one connection for all requests and watches of each of its two processes', async () => {
    await expect.poll(() => proxy.connections, { timeout: 10_000 }).toBe(2);
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
    await expect.poll(rules, { timeout: 10_000 }).toContain('198.18.99.1');
  });
});
