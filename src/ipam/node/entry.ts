import { endpointIdOf, type EndpointId, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { HolderOperation } from '../../model/slot-operation.ts';

/** What becomes of one endpoint record. */
export type EndpointChange =
  | { readonly kind: 'put'; readonly endpoint: WorkloadEndpoint }
  /** As long as it describes this container in this network. */
  | { readonly kind: 'clear'; readonly id: EndpointId; readonly containerId: string; readonly network: string };

/** What one call has decided: all of it becomes true, in the order of the entries. */
export interface Entry {
  readonly slots: readonly HolderOperation[];
  readonly endpoints: readonly EndpointChange[];
}

export function idOf(change: EndpointChange): EndpointId {
  return change.kind === 'put' ? endpointIdOf(change.endpoint) : change.id;
}

/** Whether the endpoint is the one that the change clears. */
export function isCleared({ spec }: WorkloadEndpoint, change: Extract<EndpointChange, { kind: 'clear' }>): boolean {
  return spec.containerID === change.containerId && spec.network === change.network;
}
