import type { Change } from '../../datastore/allocation-store.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { endpointIdOf } from '../../model/workload-endpoint.ts';
import type { EndpointChange, Entry } from './entry.ts';
import type { SlotChange } from './slot-change.ts';

/** The entry that undoes what the entry and the other changes may have taken. */
export function takenBack(entry: Entry, others: readonly Change[]): Entry {
  const slots = entry.slots.flatMap(freed);
  const endpoints = entry.endpoints.flatMap((change): EndpointChange[] => {
    if (change.kind === 'clear') return [];
    const { spec } = change.endpoint;
    const { containerID: containerId, network } = spec;
    return [{ kind: 'clear', id: endpointIdOf(change.endpoint), containerId, network }];
  });
  return { slots: [...slots, ...others.flatMap(takenIn)], endpoints };
}

function freed(change: SlotChange): SlotChange[] {
  const { block, ordinal } = change;
  if (change.kind === 'free') return [];
  const { id, handle } = change.allocation;
  return [{ kind: 'free', block, ordinal, id, handle }];
}

/** What would free the slots that the change takes. */
export function takenIn(change: Change): SlotChange[] {
  if (change.kind === 'create-block') return newSlots(undefined, change.block);
  return change.kind === 'update-block' ? newSlots(change.before.value, change.after) : [];
}

function newSlots(before: IpBlock | undefined, after: IpBlock): SlotChange[] {
  return [...after.slots]
    .filter(([ordinal, { id }]) => before?.slots.get(ordinal)?.id !== id)
    .map(([ordinal, { id, handle }]) => ({ kind: 'free', block: after.cidr, ordinal, id, handle }));
}
