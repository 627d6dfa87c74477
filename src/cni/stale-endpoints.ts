import type { Stored } from '../datastore/allocation-store.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { IsKept } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';

/** Lists the endpoints of the call's node and network for whose attachments `isKept` returns false. */
export async function staleEndpoints(
  { store }: Pick<CniPorts, 'store'>,
  call: CniCall,
  isKept: IsKept,
): Promise<readonly Stored<WorkloadEndpoint>[]> {
  const { endpoints } = await store.listEndpoints(call.node, call.signal);
  return endpoints.filter(
    ({ value: { spec } }) =>
      spec.network === call.attachment.network && !isKept({ containerId: spec.containerID, ifName: spec.endpoint }),
  );
}
