import { endpointIdOf, type EndpointId, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { HeldAddress } from '../../model/ip-block.ts';
import type { HolderOperation, SlotOperation } from '../../model/slot-operation.ts';
import { addressAt } from '../../net/cidr.ts';

/** A write to one endpoint record. */
export type EndpointChange =
  | { readonly kind: 'put'; readonly endpoint: WorkloadEndpoint }
  /** Deletes the record only if it describes this container in this network, with these addresses if given. */
  | {
      readonly kind: 'clear';
      readonly id: EndpointId;
      readonly containerId: string;
      readonly network: string;
      readonly ipNetworks?: readonly string[];
      /** As in a change that deletes an endpoint. */
      readonly unlessHeld?: boolean;
    };

/** The decisions of one call. Entries are applied completely and in order. */
export interface Entry {
  readonly slots: readonly HolderOperation[];
  readonly endpoints: readonly EndpointChange[];
}

/** Returns the addresses that the operations assign. */
export function takenBy(slots: Iterable<SlotOperation>): readonly HeldAddress[] {
  return [...slots].flatMap((slot) =>
    slot.kind === 'take' ? { address: addressAt(slot.block, slot.ordinal), allocation: slot.allocation } : [],
  );
}

/** Returns what deletes the record as long as it is as it was read or written. */
export function clearOf(endpoint: WorkloadEndpoint, unlessHeld = false): EndpointChange {
  const { containerID: containerId, network, ipNetworks } = endpoint.spec;
  return {
    kind: 'clear',
    id: endpointIdOf(endpoint),
    containerId,
    network,
    ipNetworks,
    ...(unlessHeld ? { unlessHeld } : {}),
  };
}

export function idOf(change: EndpointChange): EndpointId {
  return change.kind === 'put' ? endpointIdOf(change.endpoint) : change.id;
}
