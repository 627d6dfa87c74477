import { describe, expect, it } from 'vitest';
import { type CannedAnswers, cannedApi, WITHOUT_WORKLOADS } from '../../../../test/support/canned-api.ts';
import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import { openAttempts } from './attempts.ts';
import { readClusterFacts } from './read-cluster-facts.ts';

const HOOKS = '/apis/admissionregistration.k8s.io/v1';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const named = (name: string, rest: object = {}): object => ({ metadata: { name, resourceVersion: '1' }, ...rest });

const NODE = named('node-a', {
  spec: { podCIDR: '10.244.0.0/24', taints: [{ key: 'a', effect: 'NoSchedule' }] },
  status: {
    addresses: [
      { type: 'InternalIP', address: '172.20.0.11' },
      { type: 'Hostname', address: 'node-a' },
    ],
    conditions: [{ type: 'Ready', status: 'False', reason: 'KubeletNotReady', message: 'no disk' }],
    nodeInfo: { operatingSystem: 'linux', kernelVersion: '6.1.0', architecture: 'amd64', kubeletVersion: 'v1.37.2' },
  },
});
const LEASE = {
  metadata: { name: 'node-a', resourceVersion: '1', managedFields: [{ time: '2026-11-29T12:00:00Z' }] },
  spec: { renewTime: '2026-11-29T12:00:40.000000Z' },
};
const hook = (name: string, change: object = {}): object =>
  named(name, {
    webhooks: [
      {
        name,
        clientConfig: { service: { namespace: 'policy', name: 'server' } },
        rules: [{ operations: ['CREATE'], resources: ['pods'] }],
        ...change,
      },
    ],
  });
const SOUND: CannedAnswers = {
  ...WITHOUT_WORKLOADS,
  '/version': { gitVersion: 'v1.37.2' },
  '/api/v1/nodes': listOf(NODE, named('node-b')),
  [LEASES]: listOf(LEASE),
  [`${HOOKS}/mutatingwebhookconfigurations`]: listOf(),
  [`${HOOKS}/validatingwebhookconfigurations`]: listOf(
    hook('pods', {
      namespaceSelector: {
        matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system'] }],
      },
    }),
    hook('outside', { clientConfig: { url: 'https://policy.example' }, failurePolicy: 'Ignore' }),
  ),
  '/api/v1/namespaces/policy/services/server': named('server', { spec: { selector: { app: 'policy' } } }),
  '/api/v1/namespaces/policy/pods': listOf(named('p', { spec: { hostNetwork: true } }), named('q', { spec: {} })),
};

const read = async (answers: CannedAnswers, granted?: Parameters<typeof cannedApi>[1]): Promise<ClusterFacts> => {
  const signal = AbortSignal.timeout(5000);
  const attempts = openAttempts(signal);
  const rights = [{ verb: 'create', group: 'apps', resource: 'daemonsets', namespace: 'netplug-system' }];
  await using api = cannedApi(answers, granted);
  return { ...(await readClusterFacts(api, { rights, attempts }, signal)), unread: attempts.unread };
};

describe('readClusterFacts', () => {
  it('returns version, nodes with their clocks, webhooks that concern netplug, and rights', async () => {
    expect(await read(SOUND)).toMatchObject({
      kubernetes: 'v1.37.2',
      nodes: [
        {
          name: 'node-a',
          os: 'linux',
          isReady: false,
          notReady: 'KubeletNotReady: no disk',
          addresses: ['172.20.0.11'],
          podCidrs: ['10.244.0.0/24'],
          taints: ['a=:NoSchedule'],
          clockAheadMs: 40_000,
        },
        { name: 'node-b', os: 'linux', isReady: false, notReady: 'no condition', clockAheadMs: undefined },
      ],
      webhooks: [
        { name: 'pods/pods', failurePolicy: 'Fail', isBehindPodNetwork: true },
        { name: 'outside/outside', failurePolicy: 'Ignore', isBehindPodNetwork: false },
      ],
      missingRights: [],
      unread: [],
    });
  });

  it('takes a webhook whose pods are on the networks of their nodes for one that answers without netplug', async () => {
    const pods = listOf(named('p', { spec: { hostNetwork: true } }));
    const { webhooks } = await read({ ...SOUND, '/api/v1/namespaces/policy/pods': pods });
    expect(webhooks[0]).toMatchObject({ name: 'pods/pods', isBehindPodNetwork: false });
  });

  it('names what the account may not read, and the rights that it lacks', async () => {
    const facts = await read({ ...SOUND, '/api/v1/nodes': 403, [LEASES]: 403 }, () => false);
    expect(facts.missingRights).toEqual(['create daemonsets.apps in namespace netplug-system']);
    expect(facts.nodes).toEqual([]);
    expect(facts.unread.map(({ fact }) => fact).sort()).toEqual(['admission', 'clocks', 'nodes']);
    expect(facts.webhooks).toHaveLength(2);
  });
});
