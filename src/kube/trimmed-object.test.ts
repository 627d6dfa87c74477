import { expect, it } from 'vitest';
import { fromPod } from '../model/from-kubernetes/pod.ts';
import { NAMESPACES, PODS } from './paths.ts';
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

it('keeps of other objects all but the managers of their fields', () => {
  const { managedFields: _, ...metadata } = pod.metadata;
  expect(trimmedObject(NAMESPACES, pod)).toEqual({ ...pod, metadata });
});
