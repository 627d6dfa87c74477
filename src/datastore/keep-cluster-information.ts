import { isNetplugError } from '../base/errors.ts';
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

/** What a program adds to what is known of the cluster. */
export interface ClusterNote {
  readonly version: string;
  /** Words for what the cluster is made of. */
  readonly types: readonly string[];
  /** The id that the cluster had, should its record be gone; a new one otherwise. */
  readonly clusterId?: string;
}

/** How often it is tried while others write the same. */
const TRIES = 8;

type ClusterPorts = RetryPorts & {
  readonly store: ResourceStore;
};

/**
 * Notes that a program of this version runs in the cluster, and gives the cluster its id when it has none. The version
 * only ever rises, and does so with the first program of a new release: it does not say that all are of it.
 * @throws store/*, resource/changed when others keep writing
 */
export async function keepClusterInformation(
  ports: ClusterPorts,
  note: ClusterNote,
  signal: AbortSignal,
): Promise<void> {
  const guid = note.clusterId ?? newGuid(ports);
  await changeClusterInformation(ports, (before) => withNote(before, note, guid), signal);
}

/** Gives the cluster this id unless it has one; returns the id it has then. @throws store/*, resource/changed */
export async function ensureClusterId(ports: ClusterPorts, guid: string, signal: AbortSignal): Promise<string> {
  const before = await changeClusterInformation(
    ports,
    (cluster = newCluster()) =>
      clusterIdOf(cluster) === undefined ? { ...cluster, spec: { ...cluster.spec, clusterGUID: guid } } : undefined,
    signal,
  );
  return clusterIdOf(before) ?? guid;
}

/** Writes what `plan` makes of it, if anything, and plans again when somebody else was quicker. Returns what it was. */
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
      const isOvertaken = isNetplugError(cause, 'resource/exists', 'resource/changed', 'resource/not-found');
      if (!isOvertaken || attempt === TRIES) throw cause;
    }
  }
}

/** What the cluster is with this note; undefined when it is that already. */
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
