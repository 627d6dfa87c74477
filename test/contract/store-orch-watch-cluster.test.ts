import { takeSlot, updateTo } from '../support/block-edits.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ClusterFollower } from './suites/datastore/cluster-follower.ts';
import { ResourceFollower } from './suites/datastore/resource-follower.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import { handleOf } from '../../src/model/names.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { nodeName, poolOf } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';
import { type Proxy, startProxy } from '../support/orch-proxy.ts';

const never = new AbortController().signal;
const BLOCKS = '/apis/netplug.io/v3/ipblocks';
const NETPLUG_NODES = '/apis/netplug.io/v3/netplugnodes';
const merge = 'application/merge-patch+json';
const [a, b] = [nodeName('n1'), nodeName('n2')];

const holder = (id: string, node = a): Allocation => {
  const attachment = { network: 'net', containerId: id.padEnd(64, '0'), ifName: 'eth0' };
  return { id, node, ...attachment, handle: handleOf(attachment), at: '2026-01-01T00:00:00Z', chosenBy: 'netconf' };
};

describe('a watch of the cluster in the API of the orchestrator', () => {
  let server: OrchApiServer;
  let proxy: Proxy;
  /** The tool, straight to the API server; and the agent, through the proxy. */
  let straight: Store;
  let store: Store;
  const followers: ClusterFollower[] = [];

  beforeAll(async () => {
    server = await startOrchApiServer();
    proxy = await startProxy(server, await server.callerToken('agent'));
    straight = openOrchStore({ from: 'file', path: await server.callerConfig('admin tool') });
    store = openOrchStore({ from: 'api-root', url: proxy.url }, { pageSize: 2 });
  });
  beforeEach(async () => server.empty());
  afterEach(async () => {
    for (const follower of followers.splice(0)) await follower.end();
    proxy.fate = () => 'pass';
  });
  afterAll(async () => {
    for (const part of [straight, store, proxy, server]) await part?.[Symbol.asyncDispose]();
  });

  const follow = async (): Promise<ClusterFollower> => {
    const follower = new ClusterFollower(store, { node: a });
    followers.push(follower);
    await follower.started();
    return follower;
  };
  const write = async (change: (before: IpBlock) => IpBlock): Promise<void> => {
    const [before] = await straight.getBlocks([parseCidr('10.0.0.0/26')], never);
    const after = change(before!.value);
    expect(await straight.commit([updateTo(before!, after)], never)).toBe('committed');
  };
  const create = async (): Promise<void> => {
    await straight.createResource(poolOf('blue', '10.0.0.0/24'), never);
    const { pools } = await straight.readNodeView(a, undefined, never);
    const block = emptyBlock(parseCidr('10.0.0.0/26'), a);
    expect(await straight.commit([{ kind: 'create-block', block, pool: pools[0]! }], never)).toBe('committed');
  };

  it('receives a few hundred bytes for each pod that starts', async () => {
    await create();
    for (let ordinal = 0; ordinal < 40; ordinal += 1) {
      await write((block) => takeSlot(block, ordinal, holder(`first-${String(ordinal)}`)));
    }
    const follower = await follow();
    const before = proxy.bytes.get(BLOCKS) ?? 0;
    for (let ordinal = 40; ordinal < 60; ordinal += 1) {
      await write((block) => takeSlot(block, ordinal, holder(`then-${String(ordinal)}`)));
    }
    await write((block) => takeSlot(block, 60, holder('borrowed', b)));
    expect(await follower.sees(1)).toEqual(['block 10.0.0.0/26 of n1, n2 has 10.0.0.60']);
    const whole = JSON.stringify(await server.call('GET', `${BLOCKS}/10-0-0-0-26`)).length;
    const each = ((proxy.bytes.get(BLOCKS) ?? 0) - before) / 21;
    expect(whole).toBeGreaterThan(10_000);
    expect(each).toBeLessThan(1000);
  });

  it('receives after a 410 exactly what differs, and lists in pages', async () => {
    await create();
    for (const name of ['gone', 'same', 'other']) await straight.createResource(poolOf(name, '10.1.0.0/24'), never);
    for (const name of ['n1', 'n2']) await server.putNode(name);
    await straight.publishNode(b, { ipv4Address: '192.0.2.8/24' }, never);
    const follower = await follow();
    let go = (): void => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    const refused = new Set<string>();
    const continued: string[] = [];
    proxy.fate = async (_, url) => {
      if (url.searchParams.has('continue')) continued.push(url.pathname);
      if (!url.searchParams.has('watch') || refused.has(url.pathname)) return 'pass';
      await gate;
      refused.add(url.pathname);
      return { status: 410 };
    };
    proxy.cut();
    await straight.deleteResource({ kind: 'IPPool', name: 'gone' }, never);
    await straight.createResource(poolOf('new', '10.2.0.0/24'), never);
    await straight.updateResource(poolOf('other', '10.1.0.0/24', { disabled: true }), never);
    await server.call('DELETE', `${NETPLUG_NODES}/n2`);
    await write((block) => takeSlot(block, 0, holder('mine')));
    await write((block) => ({ ...block, node: b }));
    go();
    await follower.sees(5);
    // What was refused and listed again is watched again.
    await follower.reaches(() => refused.size === 6);
    await straight.updateResource(poolOf('same', '10.1.0.0/24', { disabled: true }), never);
    await follower.sees(6);
    expect(follower.lines.slice(0, 5).sort()).toEqual([
      'IPPool/gone gone',
      'IPPool/new',
      'IPPool/other',
      'Node/n2 gone',
      'block 10.0.0.0/26 of n2, n1 has 10.0.0.0',
    ]);
    expect(follower.lines.slice(5)).toEqual(['IPPool/same']);
    expect(continued).toContain('/apis/netplug.io/v3/ippools');
  });

  it('follows resources, and yields after a 410 exactly what differs', async () => {
    for (const name of ['gone', 'same', 'other']) await straight.createResource(poolOf(name, '10.1.0.0/24'), never);
    const follower = await new ResourceFollower(store, 'IPPool').started();
    let [isRefused, go] = [false, (): void => undefined];
    const gate = new Promise<void>((resolve) => (go = resolve));
    proxy.fate = async (_, url) => {
      if (!url.searchParams.has('watch') || isRefused) return 'pass';
      await gate;
      isRefused = true;
      return { status: 410 };
    };
    proxy.cut();
    await straight.deleteResource({ kind: 'IPPool', name: 'gone' }, never);
    await straight.createResource(poolOf('new', '10.2.0.0/24'), never);
    await straight.updateResource(poolOf('other', '10.1.0.0/24', { disabled: true }), never);
    expect(follower.lines).toEqual([]);
    go();
    expect([...(await follower.sees(3))].sort()).toEqual([
      'gone IPPool "gone"',
      'put IPPool "new"',
      'put IPPool "other"',
    ]);
    await straight.deleteResource({ kind: 'IPPool', name: 'same' }, never);
    expect((await follower.sees(4)).at(-1)).toBe('gone IPPool "same"');
    await follower.end();
  });

  it('backs off for all kinds together while the API does not serve, and resumes when it does', async () => {
    const follower = await follow();
    let refusals = 0;
    proxy.fate = () => {
      refusals += 1;
      return { status: 429 };
    };
    proxy.cut();
    await sleep(12_000);
    // Six watches at first, one more after each of 100, 200, 400, 800, 1600, 3200 and 5000 ms, and a probe or two; each by
    // itself they would ask 60 times.
    expect(refusals).toBeGreaterThan(5);
    expect(refusals).toBeLessThan(20);
    proxy.fate = () => 'pass';
    await straight.createResource(poolOf('blue', '10.0.0.0/24'), never);
    expect(await follower.sees(1)).toEqual(['IPPool/blue']);
  });

  it('does not receive heartbeats of a node', async () => {
    await server.putNode('n1');
    const follower = await follow();
    const ready = { type: 'Ready', status: 'True', lastHeartbeatTime: '2026-01-01T00:00:00Z' };
    await server.call('PATCH', '/api/v1/nodes/n1/status', { type: merge, body: { status: { conditions: [ready] } } });
    await server.call('PATCH', '/api/v1/nodes/n1', { type: merge, body: { spec: { podCIDRs: ['10.5.0.0/24'] } } });
    expect(await follower.sees(1)).toEqual(['Node/n1']);
    expect(follower.find('Node', 'n1')?.spec.podCIDRs).toEqual(['10.5.0.0/24']);
  });

  it('receives no byte for heartbeats of other nodes, and one event for what their agents publish', async () => {
    for (const name of ['n1', 'n2']) await server.putNode(name);
    await straight.publishNode(b, { ipv4Address: '192.0.2.8/24' }, never);
    const follower = await follow();
    const received = (): number =>
      ['/api/v1/nodes', NETPLUG_NODES].reduce((sum, path) => sum + (proxy.bytes.get(path) ?? 0), 0);
    const before = received();
    for (let beat = 0; beat < 20; beat += 1) {
      const ready = { type: 'Ready', status: 'True', lastHeartbeatTime: `2026-01-01T00:00:${String(10 + beat)}Z` };
      await server.call('PATCH', '/api/v1/nodes/n2/status', { type: merge, body: { status: { conditions: [ready] } } });
    }
    await straight.createResource(poolOf('blue', '10.0.0.0/24'), never);
    expect(await follower.sees(1)).toEqual(['IPPool/blue']);
    expect(received() - before).toBe(0);
    await server.labelNode('n2', { rack: '7' });
    await straight.publishNode(b, { ipv4Address: '192.0.2.8/24' }, never);
    expect(await follower.sees(2)).toEqual(['IPPool/blue', 'Node/n2']);
    expect(follower.find('Node', 'n2')?.metadata.labels).toEqual({ rack: '7' });
  });

  it('leaves out an object that no Node of its name owns', async () => {
    const spec = { bgp: { ipv4Address: '192.0.2.66/24' } };
    const owner = { apiVersion: 'v1', kind: 'Node', name: 'n3', uid: 'a-uid' };
    for (const [name, ownerReferences] of [
      ['n2', []],
      ['n4', [owner]],
    ] as const) {
      const body = { apiVersion: 'netplug.io/v3', kind: 'NetplugNode', metadata: { name, ownerReferences }, spec };
      await server.call('POST', NETPLUG_NODES, { body });
    }
    const follower = await follow();
    expect(follower.observed()).toEqual([]);
    expect(follower.changes[0]).toMatchObject({
      problems: ['n2', 'n4'].map((name) => `Cannot understand NetplugNode "${name}": no Node of its name owns it`),
    });
  });

  it('skips objects that cannot be read, and reports them', async () => {
    await create();
    await server.putNode('n1');
    const follower = await follow();
    const annotations = { 'netplug/ASNumber': 'many', 'netplug/IPv4Address': '192.0.2.7/24' };
    await server.call('PATCH', '/api/v1/nodes/n1', { type: merge, body: { metadata: { annotations } } });
    await follower.sees(1);
    expect(follower.changes[1]).toMatchObject({
      resource: { spec: { bgp: { ipv4Address: '192.0.2.7/24' } } },
      problem: expect.stringMatching(/^Cannot understand Node "n1": .*netplug\/ASNumber.*found "many"/) as string,
    });
    const { resources, problems } = await straight.listResources('Node', never);
    expect([resources.length, problems.length]).toEqual([1, 1]);
    const body = { metadata: { annotations: { 'netplug/borrowed': '{"n2":"all"}' } } };
    await server.call('PATCH', `${BLOCKS}/10-0-0-0-26`, { type: merge, body });
    await follower.sees(2);
    expect(follower.changes[2]).toMatchObject({
      block: { node: 'n1' },
      problem: expect.stringContaining('annotation "netplug/borrowed"') as string,
    });
  });
});
