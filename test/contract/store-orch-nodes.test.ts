import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { readyCondition, unavailableCondition } from '../../src/model/node-readiness.ts';
import { nodeName } from '../support/fixtures.ts';
import type { Json } from '../support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const never = new AbortController().signal;
const merge = 'application/merge-patch+json';
const strategic = 'application/strategic-merge-patch+json';
const n1 = nodeName('n1');

describe("the orchestrator's own nodes", () => {
  let server: OrchApiServer;
  let store: Store;
  let now = Date.parse('2026-01-01T00:00:00Z');
  const requests: string[] = [];

  beforeAll(async () => {
    server = await startOrchApiServer();
    // With the rights that the agent has.
    const path = await server.callerConfig('agent');
    const clock = { ...systemClock, now: () => now };
    store = openOrchStore({ from: 'file', path }, { clock, onRequest: (what) => requests.push(what) });
  });
  beforeEach(async () => {
    await server.empty();
    await server.putNode('n1');
    requests.length = 0;
  });
  afterAll(async () => {
    await store?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const published = async (): Promise<Json> => server.call('GET', '/apis/netplug.io/v3/netplugnodes/n1');
  const conditions = async (): Promise<unknown> => (await server.call('GET', '/api/v1/nodes/n1')).status.conditions;

  it('carry the facts as annotations beside those of others', async () => {
    const annotations = { 'netplug/ASNumber': '64513', 'example.org/other': 'x' };
    await server.call('PATCH', '/api/v1/nodes/n1', { type: merge, body: { metadata: { annotations } } });
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24', ipv4IPIPTunnelAddr: '10.0.0.2' }, never);
    expect((await server.call('GET', '/api/v1/nodes/n1')).metadata.annotations).toEqual({
      ...annotations,
      'netplug/IPv4Address': '192.0.2.7/24',
      'netplug/IPv4IPIPTunnelAddr': '10.0.0.2',
    });
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24' }, never);
    expect((await store.findResource({ kind: 'Node', name: n1 }, never))?.spec).toEqual({
      bgp: { asNumber: 64_513, ipv4Address: '192.0.2.7/24' },
    });
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24' }, never);
    const read = ['get nodes', 'get netplugnodes'];
    const first = ['get nodes', 'patch nodes', 'get netplugnodes', 'create netplugnodes', ...read];
    const second = ['get nodes', 'patch nodes', 'get netplugnodes', 'update netplugnodes', ...read];
    expect(requests).toEqual([...first, ...second, 'get nodes', ...read]);
  });

  it('have a report that goes with them, and that says by its label that something is wrong', async () => {
    const problem = {
      code: 'network/bgp',
      severity: 'warning',
      text: 'no session',
      since: '2026-12-01T09:00:00Z',
    } as const;
    await store.publishReport(n1, { problems: [problem] }, never);
    const read = async (): Promise<Json> => server.call('GET', '/apis/netplug.io/v3/nodereports/n1');
    const { uid } = (await server.call('GET', '/api/v1/nodes/n1')).metadata;
    expect((await read()).metadata).toMatchObject({
      labels: { 'netplug.io/problems': 'warning' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n1', uid }],
    });
    await store.publishReport(n1, { problems: [] }, never);
    expect((await read()).metadata.labels ?? {}).toEqual({});
  });

  it('are published to other nodes as NetplugNodes that they own, with what people set on them', async () => {
    await server.labelNode('n1', { rack: '7', zone: 'a' });
    const annotations = { 'netplug/ASNumber': '64513' };
    const body = { metadata: { annotations }, spec: { podCIDRs: ['10.5.0.0/24'] } };
    await server.call('PATCH', '/api/v1/nodes/n1', { type: merge, body });
    const addresses = [
      { type: 'InternalIP', address: '192.0.2.7' },
      { type: 'Hostname', address: 'n1' },
    ];
    await server.call('PATCH', '/api/v1/nodes/n1/status', { type: merge, body: { status: { addresses } } });
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24' }, never);
    const { uid } = (await server.call('GET', '/api/v1/nodes/n1')).metadata;
    expect(await published()).toMatchObject({
      metadata: {
        labels: { rack: '7', zone: 'a' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'n1', uid }],
      },
      spec: {
        addresses: [{ type: 'InternalIP', address: '192.0.2.7' }],
        bgp: { ipv4Address: '192.0.2.7/24', asNumber: 64_513 },
        podCIDRs: ['10.5.0.0/24'],
      },
    });
    const gone = { rack: null };
    await server.call('PATCH', '/api/v1/nodes/n1', { type: merge, body: { metadata: { labels: gone } } });
    await store.publishNode(n1, {}, never);
    const { metadata, spec } = await published();
    expect(metadata.labels).toEqual({ zone: 'a' });
    expect(spec.bgp).toEqual({ asNumber: 64_513 });
  });

  it('take over the NetplugNode of a Node of the same name that was deleted', async () => {
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24' }, never);
    const [before] = (await published()).metadata.ownerReferences;
    await server.call('DELETE', '/api/v1/nodes/n1');
    await server.putNode('n1');
    await store.publishNode(n1, { ipv4Address: '192.0.2.7/24' }, never);
    const owners = (await published()).metadata.ownerReferences;
    const { uid } = (await server.call('GET', '/api/v1/nodes/n1')).metadata;
    expect(owners).toEqual([{ ...before, uid }]);
    expect(uid).not.toBe(before.uid);
  });

  it('are published whole by several writers of the same facts', async () => {
    const annotations = { 'example.org/kept': 'x' };
    await store.publishNode(n1, { ipv4Address: '192.0.2.1/24' }, never);
    const body = { metadata: { annotations, labels: { stray: 'x' } }, spec: { ipv4IPIPTunnelAddr: '10.0.0.9' } };
    await server.call('PATCH', '/apis/netplug.io/v3/netplugnodes/n1', { type: merge, body });
    await Promise.all(
      ['192.0.2.7/24', '192.0.2.7/24', '192.0.2.7/24'].map(async (ipv4Address) =>
        store.publishNode(n1, { ipv4Address }, never),
      ),
    );
    const node = await store.findResource({ kind: 'Node', name: n1 }, never);
    expect(await published()).toMatchObject({ metadata: { annotations }, spec: node?.spec });
    expect((await published()).spec).not.toHaveProperty('ipv4IPIPTunnelAddr');
    expect((await published()).metadata.labels).toBeUndefined();
  });

  it('say whether they serve and are connected, and since when, in one write', async () => {
    const kubelet = { type: 'Ready', status: 'True' };
    await server.call('PATCH', '/api/v1/nodes/n1/status', { type: merge, body: { status: { conditions: [kubelet] } } });
    const none = { calls: [], plugin: [], pending: [] };
    const report = async (...network: string[]): Promise<void> =>
      store.reportConditions(n1, [unavailableCondition(network), readyCondition({ ...none, network })], never);
    await report('routes: none');
    now += 60_000;
    await report('nat: none');
    const times = { lastTransitionTime: '2026-01-01T00:00:00Z', lastHeartbeatTime: '2026-01-01T00:01:00Z' };
    const message = 'nat: none';
    const down = { type: 'NetworkUnavailable', status: 'True', reason: 'NetplugIsNotReady', message, ...times };
    const unready = { type: 'netplug.io/NetworkReady', status: 'False', reason: 'NetworkFailing', message, ...times };
    const ofKubelet = expect.objectContaining(kubelet);
    expect(await conditions()).toEqual(expect.arrayContaining([ofKubelet, down, unready]));
    now += 60_000;
    requests.length = 0;
    await report('nat: none');
    expect(requests).toEqual(['get nodes']);
    const body = { status: { conditions: [{ type: 'netplug.io/NetworkReady', status: 'True', reason: 'Other' }] } };
    await server.call('PATCH', '/api/v1/nodes/n1/status', { type: strategic, body });
    await report('nat: none');
    const time = '2026-01-01T00:02:00Z';
    const written = { ...unready, lastTransitionTime: time, lastHeartbeatTime: time };
    expect(await conditions()).toEqual(expect.arrayContaining([ofKubelet, down, written]));
    requests.length = 0;
    await report();
    expect(requests).toEqual(['get nodes', 'patch nodes']);
    const at = { lastTransitionTime: time, lastHeartbeatTime: time };
    expect(await conditions()).toEqual(
      expect.arrayContaining([
        ofKubelet,
        { ...unavailableCondition([]), ...at },
        { ...readyCondition({ ...none, network: [] }), ...at },
      ]),
    );
  });

  it('get the conditions again after the Node was deleted and registered again', async () => {
    const report = async (): Promise<void> => store.reportConditions(n1, [unavailableCondition([])], never);
    await report();
    await server.call('DELETE', '/api/v1/nodes/n1');
    await server.putNode('n1');
    await report();
    expect(await conditions()).toEqual([expect.objectContaining(unavailableCondition([]))]);
  });
});
