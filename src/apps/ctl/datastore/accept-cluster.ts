import { NetplugError } from '../../../base/errors.ts';
import { changeClusterInformation, newCluster } from '../../../datastore/keep-cluster-information.ts';
import { orchClusterUid } from '../../../kube/cluster-uid.ts';
import { textLike } from '../command.ts';
import { readApiAccess, withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';

/** Decodes `--uid`. */
export const readClusterUid = textLike(
  /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  'allowed is the uid of a namespace, such as 3f0c7a52-e5b1-4f0c-9d7a-3b8de6c1a2f4',
);

/** Notes which cluster the records are of: that of the uid, or else of the API server. Idempotent. */
export async function acceptCluster(context: Context, { uid }: { readonly uid: string | undefined }): Promise<Status> {
  const { ports, io, signal } = context;
  return withStore(context, 'write', async (store, { type }) => {
    if (type === 'orch') throw ownCluster();
    const accepted = uid ?? (await readUid(context));
    const before = await changeClusterInformation(
      { ...ports, store },
      (cluster = newCluster()) =>
        cluster.spec.orchClusterUID === accepted
          ? undefined
          : { ...cluster, spec: { ...cluster.spec, orchClusterUID: accepted } },
      signal,
    );
    const known = before?.spec.orchClusterUID;
    io.stdout(
      known === accepted
        ? `the records were already those of cluster ${accepted}\n`
        : `the records were those of ${known === undefined ? 'no cluster' : `cluster ${known}`}, and are now those of cluster ${accepted}\n`,
    );
    return 0;
  });
}

async function readUid(context: Context): Promise<string> {
  await using api = context.ports.openApi(await readApiAccess(context));
  return await orchClusterUid(api, context.signal);
}

function ownCluster(): NetplugError {
  return new NetplugError('cli/usage', 'Cannot note a cluster: the records are in the API of their cluster itself', {
    hint: 'Name the etcd in KV_ENDPOINTS, and the API server in ORCHCONFIG instead of --kubeconfig',
  });
}
