import { describe, expect, it } from 'vitest';
import { clusterObjects } from '../../../install/cluster/cluster-objects.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import { type ClusterDatastore, VARIANTS } from '../../../install/cluster/settings.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { installedSettings } from '../../../upgrade/cluster/installed-spec.ts';
import { objectName } from '../../../kube/objects/reference.ts';
import type { ClusterAct } from './cluster-acts.ts';
import { removableObjects, type RemovalFacts, removalPlan, settingsForRemoval } from './uninstall-plan.ts';

const DATASTORES: readonly ClusterDatastore[] = [
  { type: 'orch' },
  { type: 'kvv3', endpoints: 'https://a:2379', tls: 'secret' },
];
const REMOVAL = settingsForRemoval({});
const { operator, programs, plugin, rest, definitions } = removableObjects(REMOVAL);
const REMOVED = new Set(
  [...operator, ...programs, ...plugin, ...rest, ...definitions].map((object) => objectName(object)),
);

const FILTER = {
  apiVersion: 'networking.istio.io/v1alpha3',
  kind: 'EnvoyFilter',
  namespace: 'istio-system',
  name: 'netplug',
};
const FACTS: RemovalFacts = {
  existing: REMOVED,
  helm: undefined,
  hasInstallation: true,
  hasServerLeases: true,
  nodes: ['node-a'],
  pods: ['shop/web-0', 'shop/web-1', 'shop/web-2', 'shop/web-3', 'shop/web-4', 'shop/web-5', 'shop/web-6'],
  mesh: { filters: [FILTER], foreign: [{ ...FILTER, namespace: 'shop', name: 'own' }], pods: new Map([['shop', 3]]) },
};

const actsOf = (extent: 'programs' | 'everything'): readonly ClusterAct[] =>
  removalPlan(REMOVAL, FACTS, extent).stages.flatMap(({ steps }) => steps.filter((step) => step.kind === 'write'));

describe('the removal from a cluster', () => {
  it.each(DATASTORES.flatMap((datastore) => VARIANTS.map((variant) => ({ datastore, variant }))))(
    'removes every object of $variant with records in $datastore.type',
    ({ datastore, variant }) => {
      const circumstances = { release: 'v3.27.0', variant, datastore, defaultPools: [], nodes: 2 };
      const made = (['Enabled', 'Disabled'] as const)
        .map((mode) => settingsOf({ calicoNetwork: { bgp: 'Enabled' }, typha: { mode } }, circumstances))
        .flatMap((settings) => clusterObjects(settings).flatMap(({ objects }) => objects))
        .filter(({ kind }) => kind !== 'Namespace')
        .map((object) => objectName(object));
      expect(made.filter((key) => !REMOVED.has(key))).toEqual([]);
    },
  );

  it.each(['programs', 'everything'] as const)('of %s waits for pods that would undo or precede a step', (extent) => {
    const order = actsOf(extent)
      .map((step) => (step.act === 'await-pods-gone' ? step.names.join(' ') : step.act))
      .filter((act) => act !== 'delete');
    const agents = 'netplug-node netplug-bird netplug-orch-controllers netplug-typha';
    const onNodes = ['clean-nodes', 'forget-notes', 'await-gone'];
    expect(order).toEqual([
      'netplug-operator',
      'release-installation',
      agents,
      'delete-server-leases',
      ...(extent === 'everything' ? onNodes : []),
    ]);
  });

  it.each([
    ['the programs are there', (): boolean => true],
    ['the programs are removed', ({ kind }: Manifest): boolean => kind === 'ConfigMap'],
  ])('cleans nodes in the folders of their runtime when %s', (_, isThere) => {
    const cni = { binDir: '/var/snap/microk8s/current/opt/cni/bin', confDir: '/var/snap/microk8s/current/args/cni' };
    const circumstances = { release: 'v3.27.0', variant: 'policy-and-networking', defaultPools: [], nodes: 2 } as const;
    const made = settingsOf({ cni }, { ...circumstances, datastore: { type: 'orch' } });
    const objects = clusterObjects(made)
      .flatMap((stage) => stage.objects)
      .filter(isThere);
    const { spec } = installedSettings({ objects, pods: [], nodes: [], tool: 'v3.27.0' });
    const { stages } = removalPlan(settingsForRemoval(spec), FACTS, 'everything');
    const [cleaning] = stages.flatMap(({ steps }) => steps).flatMap((step) => ('cleanup' in step ? step.cleanup : []));
    const text = JSON.stringify(stages);
    expect(cleaning).toBeDefined();
    for (const folder of Object.values(cni)) expect(text).toContain(`"hostPath":{"path":"${folder}"`);
  });

  it('names running pods when it takes everything, and no more than a line of them', () => {
    const notesOf = (extent: 'programs' | 'everything', pods = FACTS.pods): string =>
      removalPlan(REMOVAL, { ...FACTS, pods }, extent).notes.join('\n');
    expect(notesOf('everything')).toContain(
      '7 running pods will lose network and host ports: shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4, 2 more\n',
    );
    expect(notesOf('everything', ['shop/web-0'])).toContain(
      '1 running pod will lose network and host ports: shop/web-0\n',
    );
    expect(notesOf('everything', [])).toContain('no pod runs on the network of the cluster');
    expect(notesOf('programs')).not.toContain('web-0');
  });

  it.each(['programs', 'everything'] as const)('of %s lets no proxy ask sidecars that no agent feeds', (extent) => {
    const [first] = actsOf(extent);
    expect(first).toMatchObject({ act: 'delete', objects: [FILTER] });
    const { notes } = removalPlan(REMOVAL, FACTS, extent);
    expect(notes[0]).toContain('kubectl delete envoyfilter own -n shop');
    expect(notes[1]).toContain('namespaces shop (3)');
  });
});
