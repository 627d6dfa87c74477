import { NetplugError } from '../../../base/errors.ts';
import type { Store } from '../../../datastore/store.ts';
import { otherClusterHint, otherClusterOf } from '../../../model/cluster-information.ts';
import { findCluster } from '../admit.ts';

/** Refuses an etcd whose records are of another cluster than the API server. @throws upgrade/refused, install/refused, store/* */
export async function refuseOtherRecords(
  store: Store,
  { uid, task }: { readonly uid: string; readonly task: 'install' | 'upgrade' },
  signal: AbortSignal,
): Promise<void> {
  const known = otherClusterOf(await findCluster(store, signal), uid);
  if (known === undefined) return;
  throw new NetplugError(
    `${task}/refused`,
    `Cannot ${task} with these records: they are of cluster ${known}, and the API server is of cluster ${uid}`,
    {
      hint: otherClusterHint('KUBECONFIG'),
      facts: { records: known, cluster: uid },
    },
  );
}
