import { isNewerVersion } from '../../../base/compare-versions.ts';
import { VERSION } from '../../../base/version.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import { findCluster } from '../admit.ts';
import type { Sources } from './sources.ts';
import { type Check, topic } from './topic.ts';

export interface VersionFacts {
  /** The newest release that has started in the cluster; undefined when none has said so. */
  readonly cluster: string | undefined;
  readonly isLocked: boolean;
}

export const VERSION_CHECKS: readonly Check<VersionFacts>[] = [
  {
    id: 'versions/older-tool',
    severity: 'error',
    expected: 'a tool no older than the cluster: an older one must not be used',
    judge: ({ cluster }) =>
      cluster === undefined || !isNewerVersion(cluster, VERSION)
        ? []
        : [
            {
              found: `the tool is of version ${VERSION}, the cluster of version ${cluster}`,
              remedy: `Use netplugctl ${cluster}`,
            },
          ],
  },
  {
    id: 'versions/newer-tool',
    severity: 'warning',
    expected: 'a cluster of the version of the tool',
    judge: ({ cluster }) =>
      cluster === undefined || !isNewerVersion(VERSION, cluster)
        ? []
        : [
            {
              found: `the tool is of version ${VERSION}, the cluster of version ${cluster}`,
              remedy: 'Upgrade the programs of the cluster, or use the tool of its version',
            },
          ],
  },
  {
    id: 'versions/locked',
    severity: 'warning',
    expected: 'a datastore that is not locked: nothing is assigned or released meanwhile',
    judge: ({ isLocked }) =>
      isLocked
        ? [
            {
              found: 'the datastore is locked',
              remedy: 'Finish what it was locked for, and unlock it',
              command: 'netplugctl datastore unlock',
            },
          ]
        : [],
  },
];

export const VERSIONS = topic({
  area: 'versions',
  scope: 'cluster',
  needsRecords: true,
  gather: gatherVersions,
  measure: ({ cluster }) => [`tool ${VERSION}`, ...(cluster === undefined ? [] : [`cluster ${cluster}`])],
  checks: VERSION_CHECKS,
});

async function gatherVersions({ store }: Sources, signal: AbortSignal): Promise<VersionFacts> {
  const found = await findCluster(await store(), signal);
  return { cluster: found?.spec.netplugVersion, isLocked: isLocked(found) };
}
