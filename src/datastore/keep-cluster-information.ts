import { isNewerVersion } from '../base/compare-versions.ts';
import { backOffConflict, type RetryPorts } from '../base/back-off.ts';
import {
  CLUSTER_INFORMATION_ID,
  CLUSTER_INFORMATION_NAME,
  type ClusterInformation,
  clusterIdOf,
} from '../model/cluster-information.ts';
import { API_VERSION } from '../model/resource.ts';
import type { ResourceStore } from './resource-store.ts';
import { isOvertaken } from './resource-errors.ts';

/** Facts that a program records in the ClusterInformation. */
export interface ClusterNote {
  readonly version: string;
  /** Words for the `clusterType`. */
  readonly types: readonly string[];
  /** The id to restore when the record is missing; a new one unless given. */
  readonly clusterId?: string;
}

/** Number of times that a conflict with concurrent writers is retried. */
const TRIES = 8;

type ClusterPorts = RetryPorts & {
  readonly store: ResourceStore;
};

/**
 * Records that a program of this version runs in the cluster, and writes a cluster id when there is none. The version is
 * that of the newest program, and never decreases. @throws store/*, resource/changed after repeated conflicts
 */
export async function keepClusterInformation(
  ports: ClusterPorts,
  note: ClusterNote,
  signal: AbortSignal,
): Promise<void> {
  const guid = note.clusterId ?? newGuid(ports);
  await changeClusterInformation(ports, (before) => withNote(before, note, guid), signal);
}

/** Writes this cluster id unless there is one, and returns the id of the cluster. @throws store/*, resource/changed */
export async function ensureClusterId(ports: ClusterPorts, guid: string, signal: AbortSignal): Promise<string> {
  const before = await changeClusterInformation(
    ports,
    (cluster = newCluster()) =>
      clusterIdOf(cluster) === undefined ? { ...cluster, spec: { ...cluster.spec, clusterGUID: guid } } : undefined,
    signal,
  );
  return clusterIdOf(before) ?? guid;
}

/** Writes the result of `plan`, if any; plans again after a conflict. Returns the record before the change. */
export async function changeClusterInformation(
  { store, ...ports }: ClusterPorts,
  plan: (before: ClusterInformation | undefined) => ClusterInformation | undefined,
  signal: AbortSignal,
): Promise<ClusterInformation | undefined> {
  for (let attempt = 0; ; attempt += 1) {
    await backOffConflict(ports, attempt, signal);
    const before = await store.findResource(CLUSTER_INFORMATION_ID, signal);
    const after = plan(before);
    if (after === undefined) return before;
    try {
      if (before === undefined) await store.createResource(after, signal);
      else await store.updateResource(after, signal);
      return before;
    } catch (cause) {
      if (!isOvertaken(cause) || attempt === TRIES) throw cause;
    }
  }
}

/** Returns the record with this note; undefined when it needs no change. */
export function withNote(
  before: ClusterInformation | undefined,
  { version, types }: ClusterNote,
  guid: string,
): ClusterInformation | undefined {
  const { spec, ...rest } = before ?? newCluster();
  const known = (spec.clusterType ?? '').split(',').filter((word) => word !== '');
  const missing = types.filter((word) => !known.includes(word));
  const hasNews = spec.netplugVersion === undefined || isNewerVersion(version, spec.netplugVersion);
  if (spec.clusterGUID !== undefined && missing.length === 0 && !hasNews) return undefined;
  return {
    ...rest,
    spec: {
      ...spec,
      clusterGUID: spec.clusterGUID ?? guid,
      clusterType: [...known, ...missing].join(','),
      netplugVersion: hasNews ? version : spec.netplugVersion,
    },
  };
}

export function newCluster(): ClusterInformation {
  const metadata = { name: CLUSTER_INFORMATION_NAME };
  return { apiVersion: API_VERSION, kind: 'ClusterInformation', metadata, spec: { datastoreReady: true } };
}

export function newGuid({ random }: Pick<RetryPorts, 'random'>): string {
  return random.id().replaceAll('-', '');
}
