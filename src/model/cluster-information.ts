import * as v from 'valibot';
import { field, optionalField, type SpecOf } from './field.ts';
import { column, type KindDeclaration, nameColumn, wide } from './kind-info.ts';
import type { Resource } from './resource.ts';
import { flag } from './spec-types.ts';

const CLUSTER_INFORMATION_FIELDS = {
  clusterGUID: optionalField(v.string('a string'), 'Identifies the cluster; never changes.'),
  clusterType: optionalField(v.string('a string'), 'Components of the cluster, separated by commas.'),
  netplugVersion: optionalField(
    v.string('a version such as v3.27.0'),
    'Newest release that has run in the cluster; older tools must not write.',
  ),
  orchClusterUID: optionalField(
    v.string('a uid'),
    'With etcd: uid of the namespace kube-system of the cluster that the records are of. The controllers work with no other.',
  ),
  datastoreReady: field(flag(true), 'False while the datastore is locked for maintenance and no client may write.'),
};

export type ClusterInformationSpec = SpecOf<typeof CLUSTER_INFORMATION_FIELDS>;
export type ClusterInformation = Resource<'ClusterInformation', ClusterInformationSpec>;

export const CLUSTER_INFORMATION: KindDeclaration<ClusterInformation> = {
  plural: 'clusterinformations',
  shortNames: ['clusterinfo', 'clusterinfos'],
  scope: 'cluster',
  about: 'Facts about the cluster as a whole, recorded by netplug.',
  enforced: true,
  writtenBy: 'netplug',
  names: 'default',
  columns: [
    nameColumn(),
    column('CLUSTERGUID', 'spec.clusterGUID', ({ spec }) => spec.clusterGUID ?? ''),
    wide('CLUSTERTYPE', 'spec.clusterType', ({ spec }) => spec.clusterType ?? ''),
    column('NETPLUGVERSION', 'spec.netplugVersion', ({ spec }) => spec.netplugVersion ?? ''),
    column('DATASTOREREADY', 'spec.datastoreReady', ({ spec }) => String(spec.datastoreReady)),
  ],
  fields: CLUSTER_INFORMATION_FIELDS,
  example: {
    metadata: { name: 'default' },
    spec: {
      clusterGUID: '1f0c7a52e5b14f0c9d7a3b8de6c1a2f4',
      clusterType: 'orch,bgp',
      netplugVersion: 'v3.27.0',
      datastoreReady: true,
    },
  },
};

/** The only allowed name of this kind. */
export const CLUSTER_INFORMATION_NAME = 'default';
export const CLUSTER_INFORMATION_ID = { kind: 'ClusterInformation', name: CLUSTER_INFORMATION_NAME } as const;

/** Returns the id of the cluster; undefined until an agent has written one. */
export function clusterIdOf(cluster: ClusterInformation | undefined): string | undefined {
  const id = cluster?.spec.clusterGUID;
  return id === '' ? undefined : id;
}

/** Reports whether the datastore is locked for maintenance; without a ClusterInformation it is not. */
export function isLocked(cluster: ClusterInformation | undefined): boolean {
  return cluster?.spec.datastoreReady === false;
}

/** Returns the cluster that the records are of when it is not that of the uid; undefined also when they name none yet. */
export function otherClusterOf(cluster: ClusterInformation | undefined, uid: string): string | undefined {
  const known = cluster?.spec.orchClusterUID;
  return known === uid ? undefined : known;
}

/** Says what to do about records of another cluster; `api` is the variable that names the API server. */
export function otherClusterHint(api: string): string {
  return `Correct ${api} or KV_ENDPOINTS. If the records are to be those of this cluster from now on, run "netplugctl datastore accept-cluster"`;
}
