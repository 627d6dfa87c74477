import type { Stored } from '../datastore/allocation-store.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import type { Keeps } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';

/** Endpoints of the call's node and network whose attachment is not kept. */
export async function staleEndpoints(
  { store }: Pick<CniPorts, 'store'>,
  call: CniCall,
  keeps: Keeps,
): Promise<readonly Stored<WorkloadEndpoint>[]> {
  const { endpoints } = await store.listEndpoints(call.node, call.signal);
  return endpoints.filter(
    ({ value: { spec } }) =>
      spec.network === call.attachment.network && !keeps({ containerId: spec.containerID, ifName: spec.endpoint }),
  );
}
