import { VERSION } from '../../base/version.ts';
import type { Sources } from './sources.ts';
import { type Check, topic } from './topic.ts';

export interface VersionFacts {
  /** The newest release that has started in the cluster; undefined when none has said so. */
  readonly cluster: string | undefined;
  /** False while somebody has locked the datastore; undefined when nobody says. */
  readonly isReady: boolean | undefined;
}

export const VERSION_CHECKS: readonly Check<VersionFacts>[] = [
  {
    id: 'versions/older-tool',
    severity: 'error',
    expected: 'a tool no older than the cluster: an older one must not be used',
    judge: ({ cluster }) =>
      cluster === undefined || compareVersions(VERSION, cluster) >= 0
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
      cluster === undefined || compareVersions(VERSION, cluster) <= 0
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
    judge: ({ isReady }) =>
      isReady === false
        ? [{ found: 'the datastore is locked', remedy: 'Finish what it was locked for, and unlock it' }]
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
  const found = await (await store()).findResource({ kind: 'ClusterInformation', name: 'default' }, signal);
  return { cluster: found?.spec.netplugVersion, isReady: found?.spec.datastoreReady };
}

/** By numbers, as in `v3.27.0`; what is behind them does not count. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => (/\d+(\.\d+)*/.exec(text)?.[0] ?? '').split('.').map(Number));
  for (let part = 0; part < 3; part += 1) {
    const difference = (left?.[part] ?? 0) - (right?.[part] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
