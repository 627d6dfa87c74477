import { expect, it } from 'vitest';
import { fromPod } from '../../../../model/from-kubernetes/pod.ts';
import type { WorkloadEndpoint } from '../../../../model/workload-endpoint.ts';
import { RoutedPods } from './routed-pods.ts';

function pod(
  name: string,
  more: Partial<WorkloadEndpoint['spec']> & { readonly createdAt?: string } = {},
): WorkloadEndpoint {
  const { createdAt = '2026-01-01T00:00:00Z', ...spec } = more;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: { name, namespace: 'shop', creationTimestamp: createdAt },
    spec: {
      orchestrator: 'orch',
      node: 'a',
      network: '',
      containerID: '',
      podUID: name,
      endpoint: 'eth0',
      interfaceName: '',
      mac: '',
      ipNetworks: ['10.0.0.1/32'],
      profiles: [],
      ipam: '',
      ...spec,
    },
  };
}

/** Assigns, and returns the interface of each pod and the names of pods that lost theirs. */
function assign(pods: RoutedPods, ...known: readonly WorkloadEndpoint[]): Readonly<Record<string, unknown>> {
  const { ended } = pods.assign(new Map(known.map((each) => [each.metadata.name, each])));
  const links = known.map(({ metadata }) => [metadata.name, pods.linkOf(metadata.name)] as const);
  return { ...Object.fromEntries(links), ended: ended.map(({ metadata }) => metadata.name) };
}

const LATER = '2026-01-01T00:01:00Z';

it('assigns the interface of the route to any address of the pod, and follows routes', () => {
  const pods = new RoutedPods();
  expect(assign(pods, pod('web'))).toEqual({ web: undefined, ended: [] });
  pods.setLinks(new Map([['fd00::1', 'eni1']]));
  const web = pod('web', { ipNetworks: ['10.0.0.1/32', 'fd00::1/128'] });
  expect(assign(pods, web)).toEqual({ web: 'eni1', ended: [] });
  pods.setLinks(new Map([['10.0.0.1', 'eni2']]));
  expect(assign(pods, web)).toEqual({ web: 'eni2', ended: ['web'] });
  pods.setLinks(new Map());
  expect(assign(pods, web)).toEqual({ web: undefined, ended: ['web'] });
});

it('assigns nothing to a pod whose addresses the kubelet has not reported, whatever users note on it', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  const metadata = { name: 'thief', namespace: 'shop', annotations: { 'cni.netplug/podIPs': '10.0.0.1/32' } };
  const { value } = fromPod({ metadata, spec: { nodeName: 'a' } });
  if (value === undefined) throw new Error('the pod has no endpoint');
  pods.assign(new Map([['thief', value]]));
  expect(pods.linkOf('thief')).toBeUndefined();
});

it('gives the interface to the youngest of several pods with the address', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  const [old, young] = [pod('a-old'), pod('b-young', { createdAt: LATER })];
  expect(assign(pods, old)).toEqual({ 'a-old': 'eni1', ended: [] });
  expect(assign(pods, old, young)).toEqual({ 'a-old': undefined, 'b-young': 'eni1', ended: ['a-old'] });
});

it('leaves a new interface with the address of a pod that terminates to the next pod', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  const leaving = pod('leaving', { isTerminating: true });
  assign(pods, pod('leaving'));
  expect(assign(pods, leaving)).toEqual({ leaving: 'eni1', ended: [] });
  pods.setLinks(new Map([['10.0.0.1', 'eni2']]));
  expect(assign(pods, leaving)).toEqual({ leaving: undefined, ended: ['leaving'] });
  // Also later, and when the interface was away in between.
  expect(assign(pods, leaving)).toEqual({ leaving: undefined, ended: [] });
  const next = pod('next', { createdAt: LATER });
  expect(assign(pods, leaving, next)).toEqual({ leaving: undefined, next: 'eni2', ended: [] });
});

it('knows the interface of a pod that terminates already when the process starts', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  expect(assign(pods, pod('leaving', { isTerminating: true }))).toEqual({ leaving: 'eni1', ended: [] });
});

it('ends the pod before one of the same name that takes over its interface', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  assign(pods, pod('db-0', { podUID: '1' }));
  expect(assign(pods, pod('db-0', { podUID: '2' }))).toEqual({ 'db-0': 'eni1', ended: ['db-0'] });
});

it('reports the pods whose interface changed', () => {
  const pods = new RoutedPods();
  pods.setLinks(new Map([['10.0.0.1', 'eni1']]));
  const known = new Map([['web', pod('web')]]);
  expect(pods.assign(known).changed).toEqual(['web']);
  expect(pods.assign(known).changed).toEqual([]);
  expect(pods.assign(new Map()).changed).toEqual(['web']);
});
