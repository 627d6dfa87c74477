import { describe, expect, it } from 'vitest';
import { earlierLinkName, podMark } from '../../../../cni/link-name.ts';
import type { HostLink } from '../../../../dataplane/kernel.ts';
import { replacedEndpointId } from '../../../../ipam/replaced-endpoint.ts';
import { endpointIdOf, endpointKey, endpointName, type WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import { type ListedEndpoint, LocalPods } from './local-pods.ts';

const AT = '2026-01-01T00:00:00Z';
const ADDED = { addedAt: AT, isPast: false };

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

const take = (
  pods: LocalPods,
  endpoints: readonly ListedEndpoint[],
  isComplete = true,
): ReturnType<LocalPods['list']> => pods.list({ endpoints, isComplete });
const keyOf = (endpoint: WorkloadEndpoint): string => endpointKey(endpointIdOf(endpoint));
const record = (value: WorkloadEndpoint, isThere = true): Parameters<LocalPods['join']>[0][number] => ({
  kind: 'endpoint',
  key: keyOf(value),
  value: isThere ? value : undefined,
});
/** Returns an endpoint as the orchestrator's pod describes it: users may write its annotations. */
const ofPod = (sketch: Sketch = {}): WorkloadEndpoint =>
  endpointOf({ interfaceName: '', containerID: '', ipNetworks: ['10.9.9.9/32'], ...sketch });

it('takes labels from the record, and interface and addresses from the ADD of the pod', () => {
  const pods = new LocalPods('a');
  pods.add(endpointOf({ labels: { app: 'old' } }), ADDED);
  const [joined] = pods.join([record(ofPod({ labels: { app: 'new' } }))]);
  expect(joined?.value).toMatchObject({
    metadata: { labels: { app: 'new' } },
    spec: { interfaceName: 'npl1', ipNetworks: ['10.0.0.1/32'] },
  });
});

const linkOf = (name: string, pod?: { readonly name: string; readonly uid: string }): HostLink =>
  ({
    name,
    owner: {
      containerId: 'c1',
      ifName: 'eth0',
      network: 'n',
      ...(pod === undefined ? {} : { podMark: podMark({ namespace: 'shop', ...pod }) }),
    },
  }) as HostLink;

describe('a record without an ADD that is known here', () => {
  const interfaceOf = (pods: LocalPods, value: WorkloadEndpoint): string | undefined =>
    pods.join([record(value)]).flatMap((each) => (each.kind === 'endpoint' ? [each.value?.spec.interfaceName] : []))[0];

  it('has the link whose alias names the pod with its UID', () => {
    const pods = new LocalPods('a', () => [
      linkOf('npl2', { name: 'web', uid: 'u2' }),
      linkOf('npl1', { name: 'web', uid: 'u1' }),
    ]);
    const [joined] = pods.join([record(ofPod())]);
    expect(joined?.value).toMatchObject({ spec: { interfaceName: 'npl1', ipNetworks: ['10.9.9.9/32'] } });
  });

  it('has no interface when no alias names it, whatever its name would be', () => {
    const own = linkOf(earlierLinkName({ namespace: 'shop', name: 'web' }), { name: 'db', uid: 'u7' });
    expect(interfaceOf(new LocalPods('a', () => [own]), ofPod())).toBe('');
    expect(interfaceOf(new LocalPods('a', () => [linkOf('npl1', { name: 'web', uid: 'u0' })]), ofPod())).toBe('');
  });

  it('does not have the link that it names when the alias of that names another pod', () => {
    const of = (link: HostLink): LocalPods => new LocalPods('a', () => [link]);
    const named = endpointOf({ interfaceName: 'npl1' });
    expect(interfaceOf(of(linkOf('npl1', { name: 'db', uid: 'u7' })), named)).toBe('');
    expect(interfaceOf(of(linkOf('npl1', { name: 'web', uid: 'u1' })), named)).toBe('npl1');
    expect(interfaceOf(of(linkOf('npl1')), named)).toBe('npl1');
  });

  it('keeps the link that an earlier release made, whose alias names no pod', () => {
    const name = earlierLinkName({ namespace: 'shop', name: 'web' });
    expect(interfaceOf(new LocalPods('a', () => [linkOf(name)]), ofPod())).toBe(name);
  });

  it('gets its link when that comes later than the record', () => {
    let links: readonly HostLink[] = [];
    const pods = new LocalPods('a', () => links);
    expect(interfaceOf(pods, ofPod())).toBe('');
    expect(take(pods, [])).toEqual([]);
    links = [linkOf('npl1', { name: 'web', uid: 'u1' })];
    expect(take(pods, [])).toMatchObject([{ value: { spec: { interfaceName: 'npl1' } } }]);
    expect(take(pods, [])).toEqual([]);
  });
});

describe('an interface that two pods claim', () => {
  const other = (interfaceName: string): WorkloadEndpoint => {
    const { metadata, spec } = endpointOf({ interfaceName, containerID: 'c9', podUID: 'u9' });
    const name = endpointName({ node: 'a', orchestrator: 'orch', workload: 'db', endpoint: 'eth0' });
    return { ...endpointOf({}), metadata: { ...metadata, name }, spec: { ...spec, pod: 'db' } };
  };
  const interfaces = (records: ReturnType<LocalPods['add']>): (string | undefined)[] =>
    records.map(({ value }) => value?.spec.interfaceName).toSorted();

  it('is that of neither, so that both are closed, and both are named until one of them is gone', () => {
    const pods = new LocalPods('a');
    expect(interfaces(pods.add(endpointOf({}), ADDED))).toEqual(['npl1']);
    expect(interfaces(pods.add(other('npl1'), ADDED))).toEqual(['', '']);
    expect(pods.problems()).toEqual([
      'interface "npl1" is claimed by "shop/db" and "shop/web": all of them are closed; recreate one of them',
    ]);
    expect(interfaces(pods.remove(other('npl1')).records)).toEqual(['npl1', undefined]);
    expect(pods.problems()).toEqual([]);
  });

  it('is no claim of one pod with interfaces of its own, of sandboxes of one pod, or of another node', () => {
    const pods = new LocalPods('a');
    pods.add(endpointOf({}), ADDED);
    pods.add(endpointOf({ containerID: 'c2' }), ADDED);
    pods.add(endpointOf({ endpoint: 'net1', interfaceName: 'npl2' }), ADDED);
    pods.join([record({ ...other('npl1'), spec: { ...other('npl1').spec, node: 'b' } })]);
    expect(pods.problems()).toEqual([]);
  });
});

it('passes records of other nodes unchanged', () => {
  const other = record(ofPod({ node: 'b' }));
  expect(new LocalPods('a').join([other])).toEqual([other]);
});

it('keeps the rules of a finished pod until its DEL, without addresses', () => {
  const pods = new LocalPods('a');
  const added = endpointOf({});
  pods.add(added, ADDED);
  pods.join([record(ofPod())]);
  const [finished] = pods.join([record(ofPod(), false)]);
  expect(finished?.value).toMatchObject({ spec: { interfaceName: 'npl1', ipNetworks: [] } });
  expect(pods.remove(added).records).toEqual([{ kind: 'endpoint', key: keyOf(added), value: undefined }]);
});

it('gives an earlier pod no addresses unless the datastore has its record', () => {
  const pods = new LocalPods('a');
  const earlier = { addedAt: AT, isPast: true };
  const [deleted] = pods.add(endpointOf({}), earlier);
  expect(deleted?.value).toMatchObject({ spec: { interfaceName: 'npl1', ipNetworks: [] } });
  const [present] = pods.join([record(ofPod())]);
  expect(present?.value).toMatchObject({
    metadata: { creationTimestamp: AT },
    spec: { interfaceName: 'npl1', ipNetworks: ['10.0.0.1/32'] },
  });
  const { pod: _pod, ...container } = endpointOf({ endpoint: 'net1' }).spec;
  const [without] = pods.add({ ...endpointOf({ endpoint: 'net1' }), spec: container }, earlier);
  expect(without?.value).toMatchObject({ spec: { ipNetworks: ['10.0.0.1/32'] } });
});

it('ignores the record of an earlier pod of the same name', () => {
  const pods = new LocalPods('a');
  pods.join([record(ofPod({ podUID: 'u0', labels: { app: 'old' } }))]);
  const [added] = pods.add(endpointOf({ labels: { app: 'new' } }), ADDED);
  expect(added?.value).toMatchObject({ metadata: { labels: { app: 'new' } }, spec: { ipNetworks: ['10.0.0.1/32'] } });
});

it('takes the record of a later pod of the same name, whose ADD it did not see', () => {
  const pods = new LocalPods('a');
  pods.add(endpointOf({ labels: { app: 'old' } }), ADDED);
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
  pods.add(endpointOf({ containerID: 'c1' }), ADDED);
  pods.add(endpointOf({ containerID: 'c2' }), ADDED);
  expect(pods.remove(endpointOf({ containerID: 'c1' })).records).toEqual([]);
});

it('keeps a pod that runs on beside the next one of its name, until its own DEL', () => {
  const links = [linkOf('npl1', { name: 'web', uid: 'u1' }), linkOf('npl2', { name: 'web', uid: 'u2' })];
  const pods = new LocalPods('a', () => links);
  const first = endpointOf({ labels: { app: 'old' } });
  pods.add(first, ADDED);
  pods.add(endpointOf({ containerID: 'c2', podUID: 'u2', interfaceName: 'npl2', ipNetworks: ['10.0.0.2/32'] }), ADDED);
  const { name } = replacedEndpointId(endpointIdOf(first), { network: 'n', containerId: 'c1', ifName: 'eth0' });
  const replaced = { ...first, metadata: { ...first.metadata, name } };
  expect(pods.join([record(replaced)])).toMatchObject([
    {
      key: keyOf(replaced),
      value: { metadata: { labels: { app: 'old' } }, spec: { interfaceName: 'npl1', ipNetworks: ['10.0.0.1/32'] } },
    },
  ]);
  expect(pods.remove(first)).toEqual({
    records: [{ kind: 'endpoint', key: keyOf(replaced), value: undefined }],
    released: replaced,
  });
  expect(pods.remove(first)).toEqual({ records: [], released: undefined });
  expect(pods.interfaces).toEqual(['npl2']);
});

it('gives further interfaces of a pod the labels of the pod', () => {
  const pods = new LocalPods('a');
  const second = endpointOf({ endpoint: 'net1', interfaceName: 'npl2', ipNetworks: ['10.1.0.1/32'] });
  pods.add(second, ADDED);
  const joined = pods.join([record(ofPod({ labels: { app: 'new' } }))]);
  const value = joined.flatMap((each) =>
    each.kind === 'endpoint' && each.key === keyOf(second) ? [each.value] : [],
  )[0];
  expect(value).toMatchObject({ metadata: { labels: { app: 'new' } }, spec: { interfaceName: 'npl2' } });
});

describe('endpoints that the node has recorded', () => {
  const net1 = endpointOf({ endpoint: 'net1', interfaceName: 'npl2', ipNetworks: ['10.0.0.2/32'] });
  const pod = endpointOf({ labels: { app: 'web' } });
  const listed = { endpoint: net1, at: AT, isLinked: true };
  const lone = endpointOf({ endpoint: 'cni0', interfaceName: 'npl3' });
  const { pod: _pod, podUID: _uid, ...loneSpec } = lone.spec;
  const container = { ...lone, spec: { ...loneSpec, orchestrator: 'cni' as const } };

  it('takes the labels of a second interface from the record of its pod', () => {
    const pods = new LocalPods('a');
    expect(take(pods, [listed])).toMatchObject([{ key: keyOf(net1), value: { spec: { ipNetworks: [] } } }]);
    const [, second] = pods.join([record(pod)]);
    expect(second).toMatchObject({
      key: keyOf(net1),
      value: { metadata: { labels: { app: 'web' } }, spec: { interfaceName: 'npl2', ipNetworks: ['10.0.0.2/32'] } },
    });
    expect(take(pods, [listed])).toEqual([]);
  });

  it('takes a container without a pod as it was recorded', () => {
    const pods = new LocalPods('a');
    const [taken] = take(pods, [{ endpoint: container, at: AT, isLinked: true }]);
    expect(taken).toMatchObject({ value: { spec: { interfaceName: 'npl3', ipNetworks: ['10.0.0.1/32'] } } });
  });

  it('ignores a record without a link, which a reboot leaves behind', () => {
    expect(take(new LocalPods('a'), [{ ...listed, isLinked: false }])).toEqual([]);
  });

  it('forgets a pod whose record is removed, and keeps it while only its link is missing', () => {
    const pods = new LocalPods('a');
    take(pods, [listed]);
    expect(take(pods, [{ ...listed, isLinked: false }])).toEqual([]);
    expect(take(pods, [])).toEqual([{ kind: 'endpoint', key: keyOf(net1), value: undefined }]);
  });

  it('keeps a pod whose record cannot be read, and forgets it once all records are read without it', () => {
    const pods = new LocalPods('a');
    take(pods, [listed]);
    expect(take(pods, [], false)).toEqual([]);
    expect(pods.interfaces).toEqual(['npl2']);
    expect(take(pods, [])).toEqual([{ kind: 'endpoint', key: keyOf(net1), value: undefined }]);
  });

  it('does not take back what a DEL has removed while its record cannot be read', () => {
    const pods = new LocalPods('a');
    take(pods, [listed]);
    pods.remove(net1);
    take(pods, [], false);
    expect(take(pods, [listed])).toEqual([]);
  });

  it('does not take back what a DEL has removed while its record is still there', () => {
    const pods = new LocalPods('a');
    take(pods, [listed]);
    pods.remove(net1);
    expect(take(pods, [listed])).toEqual([]);
    expect(take(pods, [])).toEqual([]);
    expect(take(pods, [listed])).toHaveLength(1);
  });

  it('prefers the later one of two sandboxes, and an ADD that has not recorded anything yet', () => {
    const pods = new LocalPods('a');
    const later = endpointOf({ endpoint: 'net1', containerID: 'c2', interfaceName: 'npl2' });
    pods.add(later, { addedAt: '2026-01-02T00:00:00Z', isPast: false });
    expect(take(pods, [listed])).toEqual([]);
    const latest = { endpoint: { ...later, spec: { ...later.spec, containerID: 'c3' } }, at: '2026-01-03T00:00:00Z' };
    expect(take(pods, [listed, { ...latest, isLinked: true }])).toMatchObject([
      { value: { spec: { containerID: 'c3' } } },
    ]);
  });
});

it('returns a pod that only its record knows as released', () => {
  const pods = new LocalPods('a');
  pods.join([record(ofPod())]);
  expect(pods.remove(endpointOf({})).released).toBeDefined();
});

it('keeps the addresses of an interface whose ADD it knows when the ADD is listed before the pod is known', () => {
  const pods = new LocalPods('a');
  const second = endpointOf({ endpoint: 'net1', ipNetworks: ['10.0.0.2/32'] });
  pods.add(second, ADDED);
  const [joined] = take(pods, [{ endpoint: second, at: '2026-01-01T00:00:01Z', isLinked: true }]);
  expect(joined?.value?.spec.ipNetworks).toEqual(['10.0.0.2/32']);
});
