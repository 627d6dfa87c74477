import { NetplugError } from '../../../base/errors.ts';
import type { Store } from '../../../datastore/store.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { NAMESPACES } from '../../../kube/paths.ts';
import { findCluster } from '../admit.ts';

/** Exists as long as its cluster. */
const EVERLASTING = 'kube-system';

/**
 * Returns what identifies a cluster however its API server is reached: two names may lead to one cluster, and two clusters may
 * have one address. @throws upgrade/refused, store/*
 */
export async function readClusterUid(api: OrchApi, signal: AbortSignal): Promise<string> {
  const answer = await api.get(NAMESPACES, EVERLASTING, signal);
  const uid = answer.outcome === 'ok' ? answer.value.metadata.uid : undefined;
  if (uid !== undefined) return uid;
  throw new NetplugError(
    'upgrade/refused',
    `Cannot identify the cluster: its API server has no namespace "${EVERLASTING}"`,
    { hint: 'Check that the kubeconfig names the API server of a cluster, and run the command again' },
  );
}

/** Refuses an etcd whose records are of another cluster than the API server. @throws upgrade/refused */
export async function refuseOtherRecords(store: Store, uid: string, signal: AbortSignal): Promise<void> {
  const cluster = await findCluster(store, signal).catch((cause: unknown) => {
    // The preflight reports records that cannot be read.
    if (cause instanceof NetplugError && !signal.aborted) return undefined;
    throw cause;
  });
  const known = cluster?.spec.orchClusterUID;
  if (known === undefined || known === uid) return;
  throw new NetplugError(
    'upgrade/refused',
    `Cannot upgrade with these records: they are of cluster ${known}, and the API server is of cluster ${uid}`,
    {
      hint: 'Correct KUBECONFIG or KV_ENDPOINTS. If the records are to be those of this cluster from now on, run "netplugctl datastore accept-cluster"',
      facts: { records: known, cluster: uid },
    },
  );
}
