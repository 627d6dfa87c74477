import { isNewerVersion } from '../../../base/compare-versions.ts';
import { VERSION } from '../../../base/version.ts';
import { isLocked } from '../../../model/cluster-information.ts';
import { clusterVersions } from '../../../model/cluster-versions.ts';
import { findCluster } from '../admit.ts';
import type { Sources } from './sources.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

export interface VersionFacts {
  /** The newest release that has run in the cluster; undefined when the datastore records none. */
  readonly cluster: string | undefined;
  readonly isLocked: boolean;
  /** A sentence for each release that is older than what else runs in the cluster. */
  readonly skews: readonly string[];
}

export const VERSION_CHECKS: readonly Check<VersionFacts>[] = [
  {
    id: 'versions/older-tool',
    severity: 'error',
    expected: 'a netplugctl that is not older than the cluster; an older one must not be used',
    judge: ({ cluster }) =>
      cluster === undefined || !isNewerVersion(cluster, VERSION)
        ? []
        : [
            {
              found: `netplugctl has version ${VERSION}, the cluster has version ${cluster}`,
              remedy: `Use netplugctl ${cluster}`,
            },
          ],
  },
  {
    id: 'versions/newer-tool',
    severity: 'warning',
    expected: 'a cluster of the same version as netplugctl',
    judge: ({ cluster }) =>
      cluster === undefined || !isNewerVersion(VERSION, cluster)
        ? []
        : [
            {
              found: `netplugctl has version ${VERSION}, the cluster has version ${cluster}`,
              remedy: `Upgrade the programs of the cluster, or use netplugctl ${cluster}`,
            },
          ],
  },
  {
    id: 'versions/agents-differ',
    severity: 'warning',
    expected: 'agents of one release on all nodes, except during an upgrade',
    remedy: 'Finish the upgrade of the agents',
    command: 'netplugctl get nodes -o wide',
    judge: ({ skews }) => skews.map((found) => found),
  },
  {
    id: 'versions/locked',
    severity: 'warning',
    expected: 'a datastore that is not locked for maintenance; a locked one assigns and releases no addresses',
    remedy: 'Finish the maintenance, and unlock the datastore',
    command: 'netplugctl datastore unlock',
    judge: ({ isLocked }) => (isLocked ? ['the datastore is locked for maintenance'] : []),
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
  const opened = await store();
  const found = await findCluster(opened, signal);
  const cluster = found?.spec.netplugVersion;
  const { resources: nodes } = await opened.listResources('Node', signal);
  return { cluster, isLocked: isLocked(found), skews: clusterVersions(nodes, cluster).skews };
}
