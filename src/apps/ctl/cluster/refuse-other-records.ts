import { NetplugError } from '../../../base/errors.ts';
import type { Store } from '../../../datastore/store.ts';
import { findCluster } from '../admit.ts';

/** Refuses an etcd whose records are of another cluster than the API server. @throws upgrade/refused, install/refused, store/* */
export async function refuseOtherRecords(
  store: Store,
  { uid, task }: { readonly uid: string; readonly task: 'install' | 'upgrade' },
  signal: AbortSignal,
): Promise<void> {
  const cluster = await findCluster(store, signal);
  const known = cluster?.spec.orchClusterUID;
  if (known === undefined || known === uid) return;
  throw new NetplugError(
    `${task}/refused`,
    `Cannot ${task} with these records: they are of cluster ${known}, and the API server is of cluster ${uid}`,
    {
      hint: 'Correct KUBECONFIG or KV_ENDPOINTS. If the records are to be those of this cluster from now on, run "netplugctl datastore accept-cluster"',
      facts: { records: known, cluster: uid },
    },
  );
}
