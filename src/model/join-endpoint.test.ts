import { describe, expect, it } from 'vitest';
import { fromPod } from './from-kubernetes/pod.ts';
import { EndpointJoin, joinEndpoint } from './join-endpoint.ts';
import { endpointName, type WorkloadEndpoint } from './workload-endpoint.ts';

interface PodParts {
  readonly metadata?: object;
  readonly spec?: object;
  readonly status?: object;
}

function podWith({ metadata, spec, status }: PodParts = {}): WorkloadEndpoint | undefined {
  return fromPod({
    metadata: { name: 'web', namespace: 'shop', uid: 'u1', labels: { app: 'now' }, ...metadata },
    spec: { nodeName: 'n1', containers: [], ...spec },
    status: { phase: 'Pending', ...status },
  }).value;
}

function recordWith(more: Partial<WorkloadEndpoint['spec']> = {}): WorkloadEndpoint {
  const parts = { node: 'n1', orchestrator: 'orch', workload: 'web', endpoint: 'eth0' };
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name: endpointName(parts), namespace: 'shop', labels: { app: 'then' } },
    spec: {
      orchestrator: 'orch',
      node: 'n1',
      network: 'net',
      containerID: 'c1',
      pod: 'web',
      podUID: 'u1',
      endpoint: 'eth0',
      interfaceName: 'npl0',
      mac: '0a:00:00:00:00:01',
      ipNetworks: ['10.0.0.1/32'],
      profiles: ['kns.shop'],
      ipam: 'netplug-ipam',
      ...more,
    },
  };
}

const addressesOf = (endpoint: WorkloadEndpoint | undefined): readonly string[] | undefined =>
  endpoint?.spec.ipNetworks;
const REPORTED = { status: { podIPs: [{ ip: '10.0.0.1' }] } };

describe('the addresses of a pod', () => {
  it.each(['172.31.0.99', '172.31.0.99/32', '10.0.0.1/32', ''])(
    'are none before its node has recorded or its kubelet reported them, whatever the note "%s" says',
    (note) => {
      const pod = podWith({ metadata: { annotations: { 'cni.netplug/podIPs': note } } });
      expect(addressesOf(joinEndpoint(pod, undefined))).toEqual([]);
    },
  );

  it('are those that its node has recorded, before its kubelet reports them', () => {
    const joined = joinEndpoint(podWith(), recordWith());
    expect(joined).toMatchObject({ metadata: { labels: { app: 'now' } }, spec: { ipNetworks: ['10.0.0.1/32'] } });
    expect(joined?.spec).not.toHaveProperty('areAddressesReported');
  });

  it.each(['172.31.0.99/32', ''])('stay its own while it terminates, also with the note "%s"', (note) => {
    const metadata = { deletionTimestamp: '2026-01-01T00:00:00Z', annotations: { 'cni.netplug/podIPs': note } };
    const pod = podWith({ metadata, ...REPORTED });
    expect(addressesOf(joinEndpoint(pod, recordWith()))).toEqual(['10.0.0.1/32']);
    // As under another main plugin.
    expect(addressesOf(joinEndpoint(pod, undefined))).toEqual(['10.0.0.1/32']);
  });

  it('stay its own when the orchestrator forgets it or lets it fail, with the labels that were known last', () => {
    for (const pod of [undefined, podWith({ status: { phase: 'Failed' } })]) {
      expect(joinEndpoint(pod, recordWith())).toMatchObject({
        metadata: { namespace: 'shop', labels: { app: 'then' } },
        spec: { ipNetworks: ['10.0.0.1/32'] },
      });
    }
  });

  it('are not those that its node recorded for another pod of the name', () => {
    const record = recordWith({ podUID: 'u0' });
    expect(joinEndpoint(podWith(REPORTED), record)).toMatchObject({
      metadata: { labels: { app: 'now' } },
      spec: { podUID: 'u1', containerID: '' },
    });
    // The pod before keeps its own, and does not get the labels of the next one.
    expect(joinEndpoint(podWith(), record)).toMatchObject({
      metadata: { labels: { app: 'then' } },
      spec: { podUID: 'u0', ipNetworks: ['10.0.0.1/32'] },
    });
  });

  it('of a static pod are found under whatever mirror pod stands for it, and a pod of a user stands for none', () => {
    const annotations = { 'kubernetes.io/config.mirror': 'x' };
    const mirror = podWith({ metadata: { uid: 'u9', annotations } });
    expect(joinEndpoint(mirror, recordWith({ podUID: '0'.repeat(32) }))?.metadata.labels).toMatchObject({ app: 'now' });
    expect(joinEndpoint(mirror, recordWith())?.metadata.labels).toEqual({ app: 'then' });
  });
});

it('joins pods and records change by change, in any order', () => {
  const join = new EndpointJoin();
  const key = '["n1","shop","n1-orch-web-eth0"]';
  const [pod, record] = [podWith(REPORTED), recordWith()];
  const labels = (taken: ReturnType<EndpointJoin['take']>): readonly unknown[] =>
    taken.map((each) => [each.key === key, each.value?.metadata.labels?.['app']]);
  expect(labels(join.take('endpoints', { before: undefined, after: record }))).toEqual([[true, 'then']]);
  expect(labels(join.take('pods', { before: undefined, after: pod }))).toEqual([[true, 'now']]);
  expect(labels(join.take('pods', { before: pod, after: undefined }))).toEqual([[true, 'then']]);
  expect(labels(join.take('endpoints', { before: record, after: undefined }))).toEqual([[true, undefined]]);
});
