import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { followPolicyRecords, PolicyCache, type PolicyRecord } from '../../src/cache/policy-records.ts';
import { openOrchStore } from '../../src/datastore/orch/orch-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { Http2Transport } from '../../src/kube/http2-transport.ts';
import { endpointName, type WorkloadEndpoint } from '../../src/model/workload-endpoint.ts';
import { formatAddress } from '../../src/net/address.ts';
import { nodeName } from '../support/fixtures.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const FOREVER = new AbortController().signal;
const MERGE = 'application/merge-patch+json';
const transport = new Http2Transport();
let server: OrchApiServer;
let agent: Store;

beforeAll(async () => {
  server = await startOrchApiServer();
  agent = openOrchStore({ from: 'file', path: await server.callerConfig('agent') }, { transport });
});
afterAll(async () => {
  for (const part of [agent, server]) await part?.[Symbol.asyncDispose]();
  transport.close();
});

/** The records as texts, as they change. */
class Seen {
  readonly now = new Map<string, PolicyRecord>();
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  changes = 0;

  constructor(store: Store) {
    this.#ended = this.#run(store);
  }

  async #run(store: Store): Promise<void> {
    for await (const { records } of followPolicyRecords(store, new PolicyCache(), this.#stop.signal)) {
      this.changes += 1;
      for (const record of records) {
        const key = record.kind === 'resource' ? `${record.which.kind} ${record.which.name}` : record.kind;
        if (record.value === undefined) this.now.delete(key);
        else this.now.set(key, record);
      }
    }
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }
}

it('derives policies, profiles, endpoints and services from the objects of the orchestrator, with the rights of the agent', async () => {
  await server.putNode('n1');
  await server.apply([
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop', labels: { team: 'a' } } },
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'deny', namespace: 'shop' },
      spec: { podSelector: { matchLabels: { app: 'web' } } },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.0.0.7'] }],
      ports: [{ protocol: 'TCP', port: 8080 }],
    },
  ]);
  await server.apply([{ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'till', namespace: 'shop' } }]);
  await server.putPod({ namespace: 'shop', name: 'web', node: 'n1', labels: { app: 'web' } });
  const seen = new Seen(agent);
  await expect.poll(() => seen.now.has('service') && seen.now.has('endpoint')).toBe(true);
  expect(seen.now.get('NetworkPolicy knp.default.deny')?.value).toMatchObject({
    metadata: { namespace: 'shop' },
    spec: { order: 1000, types: ['Ingress'] },
  });
  expect(seen.now.get('Profile kns.shop')?.value).toMatchObject({
    spec: { labelsToApply: { 'pcns.team': 'a', 'pcns.netplug/name': 'shop' } },
  });
  expect(seen.now.has('Profile ksa.shop.till')).toBe(true);
  const service = seen.now.get('service');
  expect(service?.kind === 'service' ? service.value?.addresses.map(formatAddress) : []).toEqual(['10.0.0.7']);
  expect(seen.now.get('endpoint')?.value).toMatchObject({ metadata: { labels: { app: 'web' } } });

  // A change that policy does not see is none; a label is one.
  const before = seen.changes;
  const pod = '/api/v1/namespaces/shop/pods/web';
  await server.call('PATCH', pod, { type: MERGE, body: { metadata: { annotations: { note: 'x' } } } });
  await server.call('PATCH', pod, { type: MERGE, body: { metadata: { labels: { app: 'db' } } } });
  await expect.poll(() => seen.now.get('endpoint')?.value).toMatchObject({ metadata: { labels: { app: 'db' } } });
  expect(seen.changes).toBe(before + 1);

  await server.call('PATCH', `${pod}/status`, { type: MERGE, body: { status: { phase: 'Succeeded' } } });
  await expect.poll(() => seen.now.has('endpoint')).toBe(false);
  await seen.end();
});

describe('the addresses of a pod', () => {
  const POD = '/api/v1/namespaces/shop/pods/bot';
  const recordOf = (podUID: string): WorkloadEndpoint => ({
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node: 'n1', orchestrator: 'orch', workload: 'bot', endpoint: 'eth0' }),
      namespace: 'shop',
      labels: { role: 'bot' },
    },
    spec: {
      orchestrator: 'orch',
      node: 'n1',
      network: 'net',
      containerID: 'c1',
      pod: 'bot',
      podUID,
      endpoint: 'eth0',
      interfaceName: 'npl0',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.0.0.9/32'],
      profiles: ['kns.shop'],
      ipam: 'netplug-ipam',
    },
  });
  /** Addresses and labels of the one endpoint. */
  const shown = (seen: Seen): unknown => {
    const record = seen.now.get('endpoint');
    return record?.kind === 'endpoint'
      ? [record.value?.spec.ipNetworks, record.value?.metadata.labels?.['role']]
      : undefined;
  };
  const annotate = async (note: string): Promise<void> => {
    const body = { metadata: { annotations: { 'cni.netplug/podIPs': note } } };
    await server.call('PATCH', POD, { type: MERGE, body });
  };

  it('are what its node records and its kubelet reports, never what users note, and last until its node says so', async () => {
    const uid = await server.putPod({ namespace: 'shop', name: 'bot', node: 'n1', labels: { role: 'bot' } });
    await annotate('172.31.0.99');
    const seen = new Seen(agent);
    await expect.poll(() => shown(seen)).toEqual([[], 'bot']);
    expect(await agent.commit([{ kind: 'put-endpoint', endpoint: recordOf(uid) }], FOREVER)).toBe('committed');
    await expect.poll(() => shown(seen)).toEqual([['10.0.0.9/32'], 'bot']);
    // It terminates slowly, and its user takes note and labels away, and then the pod.
    const body = { metadata: { finalizers: ['example.org/slow'] } };
    await server.call('PATCH', POD, { type: MERGE, body });
    await server.call('DELETE', POD);
    await annotate('');
    await server.call('PATCH', POD, { type: MERGE, body: { metadata: { labels: { role: 'other' } } } });
    await expect.poll(() => shown(seen)).toEqual([['10.0.0.9/32'], 'other']);
    await server.call('PATCH', POD, { type: MERGE, body: { metadata: { finalizers: null } } });
    await server.call('DELETE', `${POD}?gracePeriodSeconds=0`, { besides: [404] });
    await expect.poll(() => shown(seen)).toEqual([['10.0.0.9/32'], 'bot']);
    // An agent that starts now knows no more than the API has.
    const later = new Seen(agent);
    await expect.poll(() => shown(later)).toEqual([['10.0.0.9/32'], 'bot']);
    const [before] = (await agent.listEndpoints(nodeName('n1'), FOREVER)).endpoints;
    expect(await agent.commit([{ kind: 'delete-endpoint', before: before! }], FOREVER)).toBe('committed');
    for (const each of [seen, later]) {
      await expect.poll(() => shown(each)).toBeUndefined();
      await each.end();
    }
  });
});

it('ignores stored resources with the names of those that it derives', async () => {
  const open = { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] };
  const seen = new Seen(agent);
  await server.apply([
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'till' } },
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'closed', namespace: 'till' },
      spec: { podSelector: {} },
    },
  ]);
  await expect
    .poll(() => ['NetworkPolicy knp.default.closed', 'Profile kns.till'].every((key) => seen.now.has(key)))
    .toBe(true);
  const before = new Map(seen.now);
  const stored = { apiVersion: 'netplug.io/v3' };
  await server.apply([
    {
      ...stored,
      kind: 'NetworkPolicy',
      metadata: { name: 'knp.default.closed', namespace: 'till' },
      spec: { selector: 'all()', types: ['Ingress', 'Egress'], ...open },
    },
    { ...stored, kind: 'Profile', metadata: { name: 'kns.till' }, spec: open },
    { ...stored, kind: 'Profile', metadata: { name: 'own' }, spec: open },
  ]);
  await expect.poll(() => seen.now.has('Profile own')).toBe(true);
  for (const key of ['NetworkPolicy knp.default.closed', 'Profile kns.till'])
    expect(seen.now.get(key)).toEqual(before.get(key));
  await seen.end();
});
