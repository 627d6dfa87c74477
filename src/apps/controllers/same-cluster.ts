import { NetplugError } from '../../base/errors.ts';
import { changeClusterInformation, newCluster } from '../../datastore/keep-cluster-information.ts';
import { NAMESPACES } from '../../kube/paths.ts';
import { isLocked } from '../../model/cluster-information.ts';
import type { ControllerPorts } from './controller.ts';

/** Exists as long as its cluster. */
const EVERLASTING = 'kube-system';

/**
 * Refuses an API server of another cluster than the records are of: there, everything that lives would seem to be gone. Notes
 * the cluster in records that name none, unless they are locked. @throws controllers/other-cluster, store/*, resource/changed
 */
export async function insistOnSameCluster(
  ports: Pick<ControllerPorts, 'api' | 'store' | 'clock' | 'random'>,
  signal: AbortSignal,
): Promise<void> {
  const answer = await ports.api.get(NAMESPACES, EVERLASTING, signal);
  const uid = answer.outcome === 'ok' ? answer.value.metadata.uid : undefined;
  await changeClusterInformation(
    ports,
    (cluster = newCluster()) => {
      const { orchClusterUID: known } = cluster.spec;
      if (uid === undefined || (known !== undefined && known !== uid)) throw otherCluster(known, uid);
      return known === uid || isLocked(cluster)
        ? undefined
        : { ...cluster, spec: { ...cluster.spec, orchClusterUID: uid } };
    },
    signal,
  );
}

function otherCluster(known: string | undefined, uid: string | undefined): NetplugError {
  const found = uid === undefined ? `has no namespace "${EVERLASTING}"` : `is of cluster ${uid}`;
  const wanted = known === undefined ? 'those of no cluster yet' : `of cluster ${known}`;
  return new NetplugError(
    'controllers/other-cluster',
    `Cannot compare: the API server ${found}, the records are ${wanted}`,
    {
      hint: 'Correct ORCHCONFIG or KV_ENDPOINTS. If the records are to be those of this cluster from now on, run "netplugctl datastore accept-cluster"',
    },
  );
}
