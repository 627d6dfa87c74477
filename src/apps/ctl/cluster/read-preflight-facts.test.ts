import { describe, expect, it } from 'vitest';
import { type CannedAnswers, cannedApi, WITHOUT_WORKLOADS } from '../../../../test/support/canned-api.ts';
import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import { referenceOf } from '../../../kube/objects/reference.ts';
import { readPreflightFacts } from './read-preflight-facts.ts';

const HOOKS = '/apis/admissionregistration.k8s.io/v1';
const listOf = (...items: readonly object[]): object => ({ metadata: { resourceVersion: '1' }, items });
const named = (name: string, spec: object = {}, namespace?: string): object => ({
  metadata: { name, namespace, resourceVersion: '1' },
  spec,
});
const DEFINITIONS = Object.fromEntries(
  crdManifests().map((definition) => {
    const { name } = referenceOf(definition);
    const metadata = { name, resourceVersion: '1' };
    return [`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`, { ...definition, metadata }];
  }),
);
const EMPTY: CannedAnswers = {
  ...WITHOUT_WORKLOADS,
  '/version': { gitVersion: 'v1.37.2' },
  '/api/v1/nodes': listOf(),
  '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases': listOf(),
  [`${HOOKS}/mutatingwebhookconfigurations`]: listOf(),
  [`${HOOKS}/validatingwebhookconfigurations`]: listOf(),
  '/apis/networking.k8s.io/v1/servicecidrs': listOf(named('kubernetes', { cidrs: ['10.96.0.0/16', 'fd00::/112'] })),
  '/apis/apps/v1/daemonsets': listOf(named('cilium', {}, 'kube-system'), named('fluentd', {}, 'logs')),
  '/api/v1/pods': listOf(
    named('by-host-port', { containers: [{ ports: [{ hostPort: 9098, containerPort: 80 }] }] }, 'a'),
    named('on-host', { hostNetwork: true, containers: [{ ports: [{ containerPort: 9098 }] }] }, 'a'),
    named('inside', { containers: [{ ports: [{ containerPort: 9098 }] }] }, 'a'),
    named('ours', { hostNetwork: true, containers: [{ ports: [{ containerPort: 9098 }] }] }, 'netplug-system'),
  ),
};
const read = async (answers: CannedAnswers): ReturnType<typeof readPreflightFacts> => {
  await using api = cannedApi(answers);
  return await readPreflightFacts(api, { rights: [], certificateFaults: [] }, AbortSignal.timeout(5000));
};

describe('readPreflightFacts', () => {
  it('finds services, other plugins and pods with ports of netplug in a cluster without netplug', async () => {
    expect(await read(EMPTY)).toMatchObject({
      serviceCidrs: ['10.96.0.0/16', 'fd00::/112'],
      foreignPlugins: ['kube-system/cilium'],
      portHolders: [
        { pod: 'a/by-host-port', port: 9098 },
        { pod: 'a/on-host', port: 9098 },
      ],
      pools: [],
      definitions: [],
      release: undefined,
      installedBy: undefined,
      servesAdmission: true,
      unread: [],
    });
  });

  it('finds pools, definitions, release and method of an installation', async () => {
    const facts = await read({
      ...EMPTY,
      ...DEFINITIONS,
      '/apis/netplug.io/v3/ippools': listOf(named('blue', { cidr: '10.1.0.0/16' })),
      '/apis/netplug.io/v3/clusterinformations/default': named('default', { netplugVersion: 'v3.26.4' }),
      '/apis/apps/v1/namespaces/netplug-system/daemonsets/netplug-node': named('netplug-node'),
    });
    expect(facts).toMatchObject({
      pools: [{ name: 'blue', cidr: '10.1.0.0/16' }],
      release: 'v3.26.4',
      installedBy: 'manifest',
      unread: [],
    });
    expect(facts.definitions).toHaveLength(crdManifests().length);
    expect(facts.definitions.every(({ further, lacking }) => further.length + lacking.length === 0)).toBe(true);
  });

  it('names what it could not read', async () => {
    const { unread } = await read({ ...EMPTY, '/api/v1/pods': 403, '/apis/networking.k8s.io/v1/servicecidrs': 403 });
    expect(unread.map(({ fact }) => fact).sort()).toEqual(['admission', 'mesh', 'pods', 'service ranges']);
  });
});
