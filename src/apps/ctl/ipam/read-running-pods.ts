import type { Datastore, OrchSettings } from '../../../config/connection.ts';
import { PODS } from '../../../kube/paths.ts';
import { fromPod } from '../../../model/from-kubernetes/pod.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import { readApiAccess } from '../connection.ts';
import { isStoreFailure } from '../doctor/sources.ts';
import type { Context } from '../ports.ts';

/**
 * Reads the pods that the API has on the nodes and for which a kubelet reports addresses. None are returned where no access is
 * known, or the account may not read pods: with records in etcd nothing else needs the API.
 */
export async function readRunningPods(
  context: Context,
  { datastore, nodes }: { readonly datastore: Datastore; readonly nodes: ReadonlySet<string> },
): Promise<readonly WorkloadEndpoint[]> {
  try {
    const access = await accessOf(context, datastore);
    await using api = context.ports.openApi(access);
    const lists = await Promise.all(
      [...nodes].map(async (node) => api.list(PODS, { fieldSelector: `spec.nodeName=${node}` }, context.signal)),
    );
    return lists
      .flat()
      .flatMap((pod) => fromPod(pod).value ?? [])
      .filter(({ spec }) => spec.areAddressesReported === true && spec.isTerminating !== true);
  } catch (cause) {
    if (isStoreFailure(cause)) return [];
    throw cause;
  }
}

async function accessOf(context: Context, datastore: Datastore): Promise<OrchSettings> {
  return datastore.type === 'orch' ? datastore.orch : readApiAccess(context);
}
