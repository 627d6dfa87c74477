import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { changeClusterInformation, newCluster } from '../../datastore/keep-cluster-information.ts';
import { orchClusterUid } from '../../kube/cluster-uid.ts';
import {
  CLUSTER_INFORMATION_ID,
  type ClusterInformation,
  isLocked,
  otherClusterHint,
  otherClusterOf,
} from '../../model/cluster-information.ts';
import type { ControllerPorts } from './controller.ts';

/**
 * Refuses an API server of another cluster than the records are of: there, everything that lives would seem to be gone. Only
 * reads. @throws controllers/other-cluster, store/*
 */
export async function compareClusters(
  { api, store }: Pick<ControllerPorts, 'api' | 'store'>,
  signal: AbortSignal,
): Promise<void> {
  const uid = await orchClusterUid(api, signal);
  expectCluster(uid, await readably(async () => store.findResource(CLUSTER_INFORMATION_ID, signal)));
}

/**
 * Does the same, and notes the cluster in records that name none, unless they are locked. Only for the leader.
 * @throws controllers/other-cluster, store/*, resource/changed
 */
export async function insistOnSameCluster(
  ports: Pick<ControllerPorts, 'api' | 'store' | 'clock' | 'random'>,
  signal: AbortSignal,
): Promise<void> {
  const uid = await orchClusterUid(ports.api, signal);
  const plan = (cluster = newCluster()): ClusterInformation | undefined => {
    expectCluster(uid, cluster);
    return cluster.spec.orchClusterUID === uid || isLocked(cluster)
      ? undefined
      : { ...cluster, spec: { ...cluster.spec, orchClusterUID: uid } };
  };
  await readably(async () => changeClusterInformation(ports, plan, signal));
}

function expectCluster(uid: string, cluster: ClusterInformation | undefined): void {
  const known = otherClusterOf(cluster, uid);
  if (known === undefined) return;
  throw new NetplugError(
    'controllers/other-cluster',
    `Cannot work with this API server: it is of cluster ${uid}, and the records are of cluster ${known}`,
    {
      hint: otherClusterHint('ORCHCONFIG'),
    },
  );
}

/** A record that cannot be decoded may name any cluster. */
async function readably<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!isNetplugError(cause, 'store/corrupt')) throw cause;
    throw new NetplugError('store/corrupt', `Cannot tell which cluster the records are of: ${cause.message}`, {
      hint: 'Repair or remove the ClusterInformation in the datastore (docs/controllers.md, "The cluster of the records")',
      cause,
    });
  }
}
