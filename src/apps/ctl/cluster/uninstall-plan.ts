import { crdManifests } from '../../../install/cluster/definitions/crd-manifests.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { cleanupDaemonSet } from '../../../install/cluster/cleanup-daemon-set.ts';
import { clusterObjects, namespaceObject } from '../../../install/cluster/cluster-objects.ts';
import {
  AGENT_SET,
  BIRD_SET,
  CLEANUP_SET,
  CONFIG_MAP,
  KV_CERTIFICATES,
  OPERATOR,
} from '../../../install/cluster/names.ts';
import { operatorObjects } from '../../../install/cluster/operator-deployment.ts';
import { certificatesSecret } from '../../../install/cluster/release-manifests.ts';
import { settingsOf } from '../../../install/cluster/settings-of.ts';
import type { ClusterDatastore, ClusterSettings } from '../../../install/cluster/settings.ts';
import { CONTROLLERS } from '../../../model/automatic-host-endpoint.ts';
import type { Plan, Stage } from '../../../plans/plan.ts';
import { VERSION } from '../../../base/version.ts';
import { birdDaemonSet } from '../../../install/cluster/bird-daemon-set.ts';
import { objectName, referenceOf } from '../../../kube/objects/reference.ts';
import { installationObject } from './cluster-plan.ts';

export type RemovalAct =
  | { readonly act: 'helm'; readonly name: string; readonly namespace: string }
  | { readonly act: 'release-installation' }
  | { readonly act: 'delete'; readonly object: string }
  | { readonly act: 'await-gone'; readonly objects: readonly string[] }
  | { readonly act: 'await-pods-gone'; readonly names: readonly string[] }
  | { readonly act: 'clean-nodes' }
  | { readonly act: 'forget-nodes' };

export interface RemovalFacts {
  /** Keys of the objects that exist. */
  readonly existing: ReadonlySet<string>;
  readonly helm: { readonly name: string; readonly namespace: string } | undefined;
  readonly hasInstallation: boolean;
  readonly nodes: readonly string[];
}

/** Kept without a purge: without them, the runtime could not remove running pods. */
const KEPT_ACCOUNT = 'netplug-cni';

/** Returns settings that render every object which any method and variant may have created. */
export function settingsForRemoval(registry: string | undefined): ClusterSettings {
  const spec = {
    ...(registry === undefined ? {} : { registry }),
    calicoNetwork: { bgp: 'Enabled', ipPools: [{ cidr: '192.168.0.0/16' }] },
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
  const { release, images } = settings;
  const datastores: readonly ClusterDatastore[] = [{ type: 'orch' }, { type: 'kvv3', endpoints: '', tls: 'secret' }];
  const all = distinct(
    datastores.flatMap((datastore) => clusterObjects({ ...settings, datastore }).flatMap(({ objects }) => objects)),
  );
  const operator = operatorObjects({ release, images, replicas: 1, override: {} }).filter(
    ({ kind }) => kind !== 'Namespace',
  );
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
  const isPlugins = (object: Manifest): boolean => referenceOf(object).name.startsWith(KEPT_ACCOUNT);
  return {
    operator,
    programs: distinct(programs),
    plugin: others.filter(isPlugins),
    rest: [...others.filter((object) => !isPlugins(object)), certificatesSecret({}, release)],
    definitions: crdManifests(),
  };
}

function distinct(objects: readonly Manifest[]): readonly Manifest[] {
  return [...new Map(objects.map((object) => [objectName(object), object])).values()];
}

/** Makes the plan of a removal. Without a purge, nodes keep plugin, credentials and interfaces, so that running pods work. Pure. */
export function removalPlan(
  settings: ClusterSettings,
  { existing, helm, hasInstallation, nodes }: RemovalFacts,
  extent: 'programs' | 'everything',
): Plan<RemovalAct> {
  const { operator, programs, plugin, rest, definitions } = removableObjects(settings);
  const deletions = (objects: readonly Manifest[]): Stage<RemovalAct>['steps'] =>
    objects
      .map((object) => objectName(object))
      .filter((key) => existing.has(key))
      .map((key) => write(`delete ${key}`, { act: 'delete', object: key }));
  const stages: Stage<RemovalAct>[] = [];
  if (helm !== undefined) {
    stages.push({
      title: 'Chart',
      steps: [write(`helm uninstall ${helm.name} --namespace ${helm.namespace}`, { act: 'helm', ...helm })],
    });
  }
  const operatorDeletions = deletions(operator);
  stages.push({ title: 'Operator', steps: operatorDeletions });
  // It would clean the nodes when the Installation is deleted.
  if (operatorDeletions.length > 0) stages.push({ title: 'Operator', steps: [awaitPodsGone([OPERATOR])] });
  if (hasInstallation) {
    const text = `delete ${objectName(installationObject({}))}`;
    stages.push({ title: 'Installation', steps: [write(text, { act: 'release-installation' })] });
  }
  const kept = extent === 'programs' ? keptWithoutPurge(rest) : { deleted: rest };
  const programDeletions = deletions(programs);
  stages.push({ title: 'Programs', steps: programDeletions });
  if (programDeletions.length > 0 || (extent === 'everything' && nodes.length > 0)) {
    stages.push({ title: 'Programs', steps: [awaitPodsGone([AGENT_SET, BIRD_SET, CONTROLLERS])] });
  }
  if (extent === 'everything' && nodes.length > 0) {
    const text = `remove plugin, configuration, interfaces, routes, rules and state from ${String(nodes.length)} nodes`;
    stages.push({ title: 'Nodes', steps: [write(text, { act: 'clean-nodes' }, 'final')] });
    stages.push({
      title: 'Nodes',
      steps: [write('remove annotations from Node objects', { act: 'forget-nodes' }, 'final')],
    });
  }
  stages.push({
    title: 'Configuration and rights',
    steps: [...deletions(kept.deleted), ...(extent === 'everything' ? deletions(plugin) : [])],
  });
  if (extent === 'everything') {
    stages.push({ title: 'CRDs and all resources of netplug', steps: deletions(definitions) });
    const namespace = objectName(namespaceObject(settings.release));
    stages.push({ title: 'Namespace', steps: deletions([namespaceObject(settings.release)]) });
    const gone = [...definitions.map((object) => objectName(object)), namespace].filter((key) => existing.has(key));
    if (gone.length > 0)
      stages.push({
        title: 'Namespace',
        steps: [write('wait until all is gone', { act: 'await-gone', objects: gone })],
      });
  }
  const notes =
    extent === 'everything'
      ? ['running pods lose their network; records in etcd, if any, are left']
      : [
          'kept for running pods: plugin, configuration and interfaces on the nodes, the account netplug-cni, CRDs and records',
          '"netplugctl uninstall cluster --purge" removes these as well',
        ];
  return { stages: stages.filter(({ steps }) => steps.length > 0), notes };
}

/** A pod that is removed later needs the certificates of etcd on its node, not those in the cluster. */
function keptWithoutPurge(rest: readonly Manifest[]): { readonly deleted: readonly Manifest[] } {
  return { deleted: rest.filter((object) => ![CONFIG_MAP, KV_CERTIFICATES].includes(referenceOf(object).name)) };
}

export function cleanupObject(settings: ClusterSettings): Manifest {
  return cleanupDaemonSet(settings);
}

export const CLEANUP_NAME = CLEANUP_SET;

function awaitPodsGone(names: readonly string[]): Stage<RemovalAct>['steps'][number] {
  return write(`wait until no pod of ${names.join(', ')} is left`, { act: 'await-pods-gone', names });
}

function write(text: string, act: RemovalAct, isFinal?: 'final'): Stage<RemovalAct>['steps'][number] {
  return { ...act, kind: 'write', text, ...(isFinal === undefined ? {} : { isFinal: true }) };
}
