import { expect, it } from 'vitest';
import { fromPod } from '../model/from-kubernetes/pod.ts';
import { ENDPOINT_SLICES, KUBERNETES_POLICIES, NAMESPACES, PODS, SERVICE_ACCOUNTS } from './paths.ts';
import { ownFactsOf } from './read-facts.ts';
import { trimmedObject } from './trimmed-object.ts';

const ports = [{ name: 'http', containerPort: 80, protocol: 'TCP' }];
const pod = {
  metadata: {
    name: 'web',
    namespace: 'shop',
    uid: 'u',
    labels: { app: 'web' },
    managedFields: [{ manager: 'kubelet' }],
  },
  spec: {
    nodeName: 'n1',
    serviceAccountName: 'web',
    containers: [{ name: 'main', image: 'web:1', ports, env: [{ name: 'A', value: 'x'.repeat(1000) }] }],
    initContainers: [{ name: 'sidecar', restartPolicy: 'Always', ports: [{ name: 'admin', containerPort: 81 }] }],
    volumes: [{ name: 'v' }],
  },
  status: { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }], conditions: [{ type: 'Ready' }] },
};

it('keeps of a pod what calls and policy read, and little else', () => {
  const trimmed = trimmedObject(PODS, pod);
  expect(ownFactsOf(trimmed)).toEqual(ownFactsOf(pod));
  expect(fromPod(trimmed)).toEqual(fromPod(pod));
  expect(JSON.stringify(trimmed).length).toBeLessThan(500);
});

it('keeps of the ports of a pod those that rules can name, and host ports', () => {
  const many = Array.from({ length: 1000 }, (_, index) => ({ containerPort: index + 1 }));
  const containers = [{ name: 'main', ports: [...many, ...ports, { containerPort: 9, hostPort: 9 }] }];
  const trimmed = trimmedObject(PODS, { ...pod, spec: { ...pod.spec, containers } });
  expect(trimmed['spec']).toMatchObject({ containers: [{ ports: [...ports, { containerPort: 9, hostPort: 9 }] }] });
});

it('keeps of thousands of named ports of a pod as many as count for rules, those of sidecars first', () => {
  const named = Array.from({ length: 100 }, (_, index) => ({ name: `p${String(index)}`, containerPort: index + 1 }));
  const containers = Array.from({ length: 100 }, (_, copy) => ({
    name: 'main',
    ports: named.map(({ name, ...port }) => ({ name: `${name}-${String(copy)}`, ...port })),
  }));
  const full = { ...pod, spec: { ...pod.spec, containers } };
  const trimmed = trimmedObject(PODS, full);
  expect(ownFactsOf(trimmed)).toEqual(ownFactsOf(full));
  const { value, problems } = fromPod(trimmed);
  expect(value).toEqual(fromPod(full).value);
  expect(value?.spec.ports?.slice(0, 2).map(({ name }) => name)).toEqual(['admin', 'p0-0']);
  expect([value?.spec.ports?.length, ownFactsOf(full).ports.length]).toEqual([256, 256]);
  expect(problems).toEqual([
    'Pod shop/web has more ports with a name or a port of the host than count for rules: they know the first ones',
  ]);
  expect(JSON.stringify(trimmed).length).toBeLessThan(15_000);
});

it('counts few ports of one name, because rules of all tenants look up the same set', () => {
  const containers = Array.from({ length: 1000 }, (_, index) => ({
    ports: [{ name: 'http', containerPort: index + 1 }],
  }));
  const full = { ...pod, spec: { ...pod.spec, containers } };
  expect(fromPod(trimmedObject(PODS, full)).value).toEqual(fromPod(full).value);
  expect(fromPod(full).value?.spec.ports?.filter(({ name }) => name === 'http')).toHaveLength(16);
});

it('keeps of facts about a pod as many labels as its object is kept with', () => {
  const labels = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`l${String(index)}`, 'x']));
  expect(Object.keys(ownFactsOf({ ...pod, metadata: { ...pod.metadata, labels } }).labels)).toHaveLength(257);
});

it('keeps of other objects all but the managers of their fields', () => {
  const { managedFields: _, ...metadata } = pod.metadata;
  expect(trimmedObject(NAMESPACES, pod)).toEqual({ ...pod, metadata });
});

it.each([PODS, NAMESPACES, SERVICE_ACCOUNTS, KUBERNETES_POLICIES, ENDPOINT_SLICES])(
  'keeps of $plural no more than a few kilobytes of annotations, whatever users write',
  (collection) => {
    const others = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`a${String(index)}`, 'x'.repeat(2000)]),
    );
    const annotations = {
      ...others,
      'cni.netplug/anything': 'x'.repeat(20_000),
      'cni.netplug/ipv4pools': '["blue"]',
      'cni.netplug/ipAddrs': `["${'1'.repeat(20_000)}"]`,
    };
    const { metadata } = trimmedObject(collection, { ...pod, metadata: { ...pod.metadata, annotations } });
    expect(metadata.annotations).toMatchObject({ 'cni.netplug/ipv4pools': '["blue"]' });
    expect(JSON.stringify(metadata).length).toBeLessThan(5000);
    // A call finds the value that was cut, and refuses it.
    expect(Object.keys(metadata.annotations ?? {})).toEqual(['cni.netplug/ipv4pools', 'cni.netplug/ipAddrs']);
  },
);

it.each([PODS, NAMESPACES, SERVICE_ACCOUNTS, KUBERNETES_POLICIES, ENDPOINT_SLICES])(
  'keeps of $plural no more labels than policies know, and one, whatever users write',
  (collection) => {
    const labels = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`l${String(index)}`, 'x']));
    const { metadata } = trimmedObject(collection, { ...pod, metadata: { ...pod.metadata, labels } });
    expect(Object.keys(metadata.labels ?? {})).toHaveLength(257);
  },
);

it('keeps the annotations of what only netplug and administrators write', () => {
  const annotations = { 'netplug/borrowed': '{}', other: 'x' };
  const metadata = { name: '10-0-0-0-26', annotations };
  expect(trimmedObject({ group: 'netplug.io', version: 'v3', plural: 'ipblocks' }, { metadata })).toEqual({ metadata });
});
