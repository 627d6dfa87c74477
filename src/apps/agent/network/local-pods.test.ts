import { expect, it } from 'vitest';
import { hostLinkName } from '../../../cni/link-name.ts';
import { endpointIdOf, endpointKey, endpointName, type WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { LocalPods } from './local-pods.ts';

const AT = '2026-01-01T00:00:00Z';

interface Sketch {
  readonly node?: string;
  readonly endpoint?: string;
  readonly containerID?: string;
  readonly podUID?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly interfaceName?: string;
  readonly ipNetworks?: readonly string[];
}

function endpointOf(sketch: Sketch): WorkloadEndpoint {
  const { node = 'a', endpoint = 'eth0', labels = {}, ...rest } = sketch;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: {
      name: endpointName({ node, orchestrator: 'orch', workload: 'web', endpoint }),
      namespace: 'shop',
      labels,
    },
    spec: {
      orchestrator: 'orch',
      node,
      network: 'n',
      containerID: 'c1',
      pod: 'web',
      podUID: 'u1',
      endpoint,
      interfaceName: 'npl1',
      mac: '',
      ipNetworks: ['10.0.0.1/32'],
      profiles: ['kns.shop'],
      ipam: '',
      ...rest,
    },
  };
}

const keyOf = (endpoint: WorkloadEndpoint): string => endpointKey(endpointIdOf(endpoint));
const record = (value: WorkloadEndpoint, isThere = true): Parameters<LocalPods['join']>[0][number] => ({
  kind: 'endpoint',
  key: keyOf(value),
  value: isThere ? value : undefined,
});
/** As the orchestrator's pod says it: users may write its annotations. */
const ofPod = (sketch: Sketch = {}): WorkloadEndpoint =>
  endpointOf({ interfaceName: '', containerID: '', ipNetworks: ['10.9.9.9/32'], ...sketch });

it('takes labels from the record, and interface and addresses from the ADD of the pod', () => {
  const pods = new LocalPods('a');
  pods.add(endpointOf({ labels: { app: 'old' } }), AT);
  const [joined] = pods.join([record(ofPod({ labels: { app: 'new' } }))]);
  expect(joined?.value).toMatchObject({
    metadata: { labels: { app: 'new' } },
    spec: { interfaceName: 'npl1', ipNetworks: ['10.0.0.1/32'] },
  });
});

it('finds the interface of a pod whose ADD an earlier agent served', () => {
  const [joined] = new LocalPods('a').join([record(ofPod())]);
  const interfaceName = hostLinkName(
    { namespace: 'shop', name: 'web' },
    { network: 'n', containerId: '', ifName: 'eth0' },
  );
  expect(joined?.value).toMatchObject({ spec: { interfaceName, ipNetworks: ['10.9.9.9/32'] } });
});

it('passes records of other nodes unchanged', () => {
  const other = record(ofPod({ node: 'b' }));
  expect(new LocalPods('a').join([other])).toEqual([other]);
});

it('keeps the rules of a finished pod until its DEL, without addresses', () => {
  const pods = new LocalPods('a');
  const added = endpointOf({});
  pods.add(added, AT);
  pods.join([record(ofPod())]);
  const [finished] = pods.join([record(ofPod(), false)]);
  expect(finished?.value).toMatchObject({ spec: { interfaceName: 'npl1', ipNetworks: [] } });
  expect(pods.remove(added).records).toEqual([{ kind: 'endpoint', key: keyOf(added), value: undefined }]);
});

it('ignores the record of an earlier pod of the same name', () => {
  const pods = new LocalPods('a');
  pods.join([record(ofPod({ podUID: 'u0', labels: { app: 'old' } }))]);
  const [added] = pods.add(endpointOf({ labels: { app: 'new' } }), AT);
  expect(added?.value).toMatchObject({ metadata: { labels: { app: 'new' } }, spec: { ipNetworks: ['10.0.0.1/32'] } });
});

it('takes the record of a later pod of the same name, whose ADD it did not see', () => {
  const pods = new LocalPods('a');
  pods.add(endpointOf({ labels: { app: 'old' } }), AT);
  const later = ofPod({ podUID: 'u2', labels: { app: 'new' } });
  const created = { ...later, metadata: { ...later.metadata, creationTimestamp: '2026-01-01T00:00:05Z' } };
  const [joined] = pods.join([record(created)]);
  expect(joined?.value).toMatchObject({ metadata: { labels: { app: 'new' } }, spec: { ipNetworks: ['10.9.9.9/32'] } });
  expect(pods.remove(endpointOf({ podUID: 'u2', containerID: 'c2' }))).toMatchObject({
    records: [{ key: keyOf(created), value: undefined }],
    released: created,
  });
});

it('keeps a pod when the DEL is of its earlier sandbox', () => {
  const pods = new LocalPods('a');
  pods.add(endpointOf({ containerID: 'c1' }), AT);
  pods.add(endpointOf({ containerID: 'c2' }), AT);
  expect(pods.remove(endpointOf({ containerID: 'c1' })).records).toEqual([]);
});

it('gives further interfaces of a pod the labels of the pod', () => {
  const pods = new LocalPods('a');
  const second = endpointOf({ endpoint: 'net1', interfaceName: 'npl2', ipNetworks: ['10.1.0.1/32'] });
  pods.add(second, AT);
  const joined = pods.join([record(ofPod({ labels: { app: 'new' } }))]);
  const value = joined.flatMap((each) =>
    each.kind === 'endpoint' && each.key === keyOf(second) ? [each.value] : [],
  )[0];
  expect(value).toMatchObject({ metadata: { labels: { app: 'new' } }, spec: { interfaceName: 'npl2' } });
});
