import { isNetplugError } from '../base/errors.ts';
import { isNewerVersion } from '../base/compare-versions.ts';
import { backOff, type Patience } from '../base/retry.ts';
import { CLUSTER_INFORMATION_NAME, type ClusterInformation } from '../model/cluster-information.ts';
import { API_VERSION } from '../model/resource.ts';
import type { Store } from './store.ts';

/** What a program adds to what is known of the cluster. */
export interface ClusterNote {
  readonly version: string;
  /** Words for what the cluster is made of. */
  readonly types: readonly string[];
}

/** How often it is tried while others write the same. */
const TRIES = 8;

/**
 * Notes that a program of this version runs in the cluster, and gives the cluster its id when it has none. The version
 * only ever rises, and does so with the first program of a new release: it does not say that all are of it.
 * @throws store/*, resource/changed when others keep writing
 */
export async function keepClusterInformation(
  { store, ...patience }: Patience & { readonly store: Pick<Store, 'findResource' | 'createResource' | 'updateResource'> },
  note: ClusterNote,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    await backOff(patience, attempt, signal);
    const before = await store.findResource('ClusterInformation', CLUSTER_INFORMATION_NAME, signal);
    const after = withNote(before, note, newGuid(patience));
    if (after === undefined) return;
    try {
      if (before === undefined) await store.createResource(after, signal);
      else await store.updateResource(after, signal);
      return;
    } catch (cause) {
      // Somebody else was quicker: of two who find no id, one gives it.
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

function newGuid({ random }: Pick<Patience, 'random'>): string {
  return random.id().replaceAll('-', '');
}
