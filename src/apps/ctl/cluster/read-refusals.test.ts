import { expect, it } from 'vitest';
import { cannedApi, WITHOUT_WORKLOADS } from '../../../../test/support/canned-api.ts';
import { readRefusals } from './read-refusals.ts';

const FLOATING = { 'cni.netplug/floatingIPs': '["10.83.7.7"]' };
const NO_IPAM = { 'cni.netplug/ipAddrsNoIpam': '["10.99.0.7"]' };
const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const named = (place: string, { metadata = {}, spec = {} }: { metadata?: object; spec?: object } = {}): object => {
  const [name, namespace] = place.split('/').reverse();
  return { metadata: { name, namespace, resourceVersion: '1', ...metadata }, spec };
};
const templated = (place: string, annotations: object, serviceAccountName?: string): object =>
  named(place, { spec: { template: { metadata: { annotations }, spec: { serviceAccountName } } } });
const agentOn = (nodeName: string): object =>
  named('netplug-system/netplug-node-x', {
    metadata: { labels: { 'app.kubernetes.io/name': 'netplug-node' }, ownerReferences: [{}] },
    spec: { nodeName },
  });

const CLUSTER = {
  ...WITHOUT_WORKLOADS,
  '/api/v1/nodes': listOf(
    named('with-pod', { metadata: { annotations: { 'netplug/Version': 'v3.27.0' } } }),
    named('outside', { metadata: { annotations: { 'netplug/Version': 'v3.27.0' } } }),
    named('without-agent', { metadata: { annotations: { 'example.org/netplug': 'x' } } }),
  ),
  '/api/v1/namespaces': listOf(named('trusted')),
  '/api/v1/pods': listOf(
    agentOn('with-pod'),
    named('shop/alone', { metadata: { annotations: FLOATING } }),
    named('shop/of-a-deployment', { metadata: { annotations: FLOATING, ownerReferences: [{}] } }),
    named('shop/plain'),
  ),
  '/apis/apps/v1/deployments': listOf(
    templated('shop/web', { ...FLOATING, ...NO_IPAM }),
    templated('shop/allowed', FLOATING, 'web'),
    templated('trusted/web', FLOATING),
    templated('shop/plain', {}),
  ),
  '/apis/batch/v1/cronjobs': listOf(
    named('shop/tick', { spec: { jobTemplate: { spec: { template: { metadata: { annotations: NO_IPAM } } } } } }),
  ),
};

it('names what pods are made from with annotations that their namespace and account may not set, and agents outside pods', async () => {
  await using api = cannedApi(CLUSTER, (_, spec) => spec.user === 'system:serviceaccount:shop:web');
  expect(await readRefusals(api, AbortSignal.timeout(5000))).toEqual({
    refusedPods: [
      'Pod shop/alone (cni.netplug/floatingIPs)',
      'Deployment shop/web (cni.netplug/ipAddrsNoIpam)',
      'Deployment shop/web (cni.netplug/floatingIPs)',
      'CronJob shop/tick (cni.netplug/ipAddrsNoIpam)',
    ],
    agentsOutsidePods: ['outside'],
  });
});
