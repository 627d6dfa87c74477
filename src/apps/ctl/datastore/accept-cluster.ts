import { changeClusterInformation } from '../../../datastore/keep-cluster-information.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';

/** Forgets which cluster the records are of: the controllers note the one that they find next. Idempotent. */
export async function acceptCluster(context: Context): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'write', async (store) => {
    const before = await changeClusterInformation(
      { ...ports, store },
      (cluster) => {
        if (cluster?.spec.orchClusterUID === undefined) return undefined;
        const { orchClusterUID: _, ...spec } = cluster.spec;
        return { ...cluster, spec };
      },
      signal,
    );
    const known = before?.spec.orchClusterUID;
    io.stdout(
      known === undefined
        ? 'the records were those of no cluster yet\n'
        : `the records are no longer those of cluster ${known}\n`,
    );
    return 0;
  });
}
