import { POLICY_BINDING_KIND, POLICY_KIND } from '../../../kube/admission-policies.ts';
import { counted } from '../../../base/counted.ts';
import { given } from '../../../base/given.ts';
import type { InstallationSpec } from '../../../model/installation.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import { cleanupDaemonSet } from '../../../install/cluster/cleanup-daemon-set.ts';
import { clusterObjects, namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import { AGENT_SET, BIRD_SET, CONFIG_MAP, KV_CERTIFICATES, OPERATOR } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import { certificatesSecret } from '../../../install/cluster/release-manifests.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import type { ClusterDatastore, ClusterSettings } from '../../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import type { Plan } from '../../../plans/plan.ts';
import { VERSION } from '../../../base/version.ts';
import { birdDaemonSet } from '../../../install/cluster/bird-daemon-set.ts';
import { objectName, type ObjectReference, referenceKey, referenceOf } from '../../../kube/objects/reference.ts';
import { actStages } from '../../../plans/acts.ts';
import { type ClusterAct, CLUSTER_ACTS, type ClusterPorts } from './cluster-acts.ts';
import { installationObject, operatorParts } from './cluster-plan.ts';
import { meshNotes, type MeshRemains } from '../mesh/find-mesh-remains.ts';

export interface RemovalFacts {
  /** Keys of the objects that exist. */
  readonly existing: ReadonlySet<string>;
  readonly helm: { readonly name: string; readonly namespace: string } | undefined;
  readonly hasInstallation: boolean;
  /** Whether servers of the fan-out have left Leases. */
  readonly hasServerLeases: boolean;
  readonly nodes: readonly string[];
  /** Running pods on the network of the cluster, as `namespace/name`, when they are to lose it. */
  readonly pods: readonly string[];
  readonly mesh: MeshRemains;
}

/** How many pods a note names. */
const NAMED_PODS = 5;
/** Kept without a purge: without them, the runtime could not remove running pods. */
const KEPT_ACCOUNT = 'netplug-cni';
/** Kept as well: what the account of the plugin and users may write stays limited. */
const KEPT_KINDS = [POLICY_KIND, POLICY_BINDING_KIND];
/** Kept as well: a pod that is removed later needs the certificates of etcd on its node, not those in the cluster. */
const KEPT = [CONFIG_MAP, KV_CERTIFICATES];

/**
 * Returns settings that render every object which any method and variant may have created. Of what is installed they have what
 * the clean-up of nodes depends on: folders of the runtime, nodes with agents, and where images come from.
 */
export function settingsForRemoval({ cni, node, registry, imagePullSecrets }: InstallationSpec): ClusterSettings {
  const spec = {
    ...given({ node, registry, imagePullSecrets }),
    cni: given({ binDir: cni?.binDir, confDir: cni?.confDir }),
    calicoNetwork: { bgp: 'Enabled', ipPools: [{ cidr: '192.168.0.0/16' }] },
    typha: { mode: 'Enabled' },
  } as const;
  const circumstances = { release: VERSION, variant: 'policy-and-networking', defaultPools: [], nodes: 2 } as const;
  return settingsOf(spec, { ...circumstances, datastore: { type: 'orch' } });
}

/** Returns every object that a removal deletes, whichever datastore the installation has, by stages of deletion. */
export function removableObjects(settings: ClusterSettings): {
  readonly operator: readonly Manifest[];
  readonly programs: readonly Manifest[];
  readonly plugin: readonly Manifest[];
  readonly rest: readonly Manifest[];
  readonly definitions: readonly Manifest[];
} {
  const datastores: readonly ClusterDatastore[] = [{ type: 'orch' }, { type: 'kvv3', endpoints: '', tls: 'secret' }];
  const withoutFanOut = { ...settings, spec: { ...settings.spec, typha: { mode: 'Disabled' } } } as const;
  const all = distinct(
    [settings, ...datastores.map((datastore) => ({ ...withoutFanOut, datastore }))].flatMap((each) =>
      clusterObjects(each).flatMap(({ objects }) => objects),
    ),
  );
  const operator = operatorParts(settings);
  const operatorKeys = new Set(operator.map((object) => objectName(object)));
  const programs = [
    ...all.filter(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet'),
    birdDaemonSet(settings),
  ];
  const isProgram = new Set(programs.map((object) => objectName(object)));
  const others = all.filter((object) => {
    const key = objectName(object);
    return (
      !isProgram.has(key) &&
      !operatorKeys.has(key) &&
      !['CustomResourceDefinition', 'Namespace', 'IPPool'].includes(String(object['kind']))
    );
  });
  const isPlugins = (object: Manifest): boolean =>
    referenceOf(object).name.startsWith(KEPT_ACCOUNT) || KEPT_KINDS.includes(String(object['kind']));
  return {
    operator,
    programs: distinct(programs),
    plugin: others.filter(isPlugins),
    rest: [...others.filter((object) => !isPlugins(object)), certificatesSecret({}, settings.release)],
    definitions: crdManifests(),
  };
}

function distinct(objects: readonly Manifest[]): readonly Manifest[] {
  return [...new Map(objects.map((object) => [objectName(object), object])).values()];
}

/** Makes the plan of a removal. Without a purge, nodes keep plugin, credentials and interfaces, so that running pods work. Pure. */
export function removalPlan(
  settings: ClusterSettings,
  { existing, helm, hasInstallation, hasServerLeases, nodes, pods, mesh }: RemovalFacts,
  extent: 'programs' | 'everything',
): Plan<ClusterAct> {
  const { operator, programs, plugin, rest, definitions } = removableObjects(settings);
  const isPurge = extent === 'everything';
  const namespace = namespaceObject(settings.release);
  const there = (objects: readonly Manifest[]): readonly ObjectReference[] =>
    objects.map(referenceOf).filter((which) => existing.has(referenceKey(which)));
  const deletions = (objects: readonly Manifest[]): readonly ClusterAct[] =>
    there(objects).map((which) => ({ act: 'delete', objects: [which] }));
  const when = (condition: boolean, ...acts: readonly ClusterAct[]): readonly ClusterAct[] => (condition ? acts : []);
  const installation = referenceOf(installationObject({}));
  const cleansNodes = isPurge && nodes.length > 0;
  const gone = there([...definitions, namespace]);
  const cleanup = [namespace, cleanupDaemonSet(settings)];
  const doomed = isPurge ? [...rest, ...plugin] : rest.filter((object) => !KEPT.includes(referenceOf(object).name));
  const stages = actStages<ClusterAct, ClusterPorts>(CLUSTER_ACTS, [
    [
      'Mesh',
      when(mesh.filters.length > 0, { act: 'delete', objects: mesh.filters, why: 'so that no proxy asks netplug' }),
    ],
    ['Chart', helm === undefined ? [] : [{ act: 'uninstall-chart', release: helm }]],
    ['Operator', deletions(operator)],
    // It would clean the nodes when the Installation is deleted.
    ['Operator', when(there(operator).length > 0, { act: 'await-pods-gone', names: [OPERATOR] })],
    ['Installation', when(hasInstallation, { act: 'release-installation', installation })],
    ['Programs', deletions(programs)],
    [
      'Programs',
      when(there(programs).length > 0 || cleansNodes, {
        act: 'await-pods-gone',
        names: [AGENT_SET, BIRD_SET, CONTROLLERS, TYPHA],
      }),
    ],
    ['Programs', when(hasServerLeases, { act: 'delete-server-leases' })],
    ['Nodes', when(cleansNodes, { act: 'clean-nodes', nodes: nodes.length, cleanup })],
    ['Nodes', when(cleansNodes, { act: 'forget-notes' })],
    ['Configuration and rights', deletions(doomed)],
    ['CRDs and all resources of netplug', isPurge ? deletions(definitions) : []],
    ['Namespace', isPurge ? deletions([namespace]) : []],
    ['Namespace', when(isPurge && gone.length > 0, { act: 'await-gone', objects: gone })],
  ]);
  const notes = isPurge
    ? [podsNote(pods), 'records in etcd, if any, are left']
    : [
        'kept for running pods: plugin, configuration and interfaces on the nodes, the account netplug-cni, admission policies, CRDs and records',
        '"netplugctl uninstall cluster --purge" removes these as well',
      ];
  return { stages, notes: [...meshNotes(mesh), ...notes] };
}

function podsNote(pods: readonly string[]): string {
  if (pods.length === 0) return 'no pod runs on the network of the cluster';
  const more = pods.length > NAMED_PODS ? [`${String(pods.length - NAMED_PODS)} more`] : [];
  const names = [...pods.slice(0, NAMED_PODS), ...more].join(', ');
  return `${counted(pods.length, 'running pod')} will lose network and host ports: ${names}`;
}
