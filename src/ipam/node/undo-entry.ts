import type { Change } from '../../datastore/allocation-store.ts';
import { type SlotOperation, undoOf } from '../../model/slot-operation.ts';
import { clearOf, type Entry } from './entry.ts';

/**
 * Returns the entry that releases what the entry and the other changes may have assigned. Without `releasedAt`, in seconds since
 * 1970, no pod has ever used the addresses.
 */
export function undoEntry(entry: Entry, otherChanges: readonly Change[], releasedAt?: number): Entry {
  const operations = operationsOf(entry, otherChanges);
  const endpoints = entry.endpoints.flatMap((change) => (change.kind === 'put' ? clearOf(change.endpoint, true) : []));
  return { slots: operations.flatMap((each) => (each.kind === 'take' ? undoOf(each, releasedAt) : [])), endpoints };
}

/** Returns what the entry and the other changes do to slots. */
export function operationsOf(entry: Entry, otherChanges: readonly Change[]): readonly SlotOperation[] {
  return [...entry.slots, ...otherChanges.flatMap(operationsIn)];
}

function operationsIn(change: Change): readonly SlotOperation[] {
  return change.kind === 'create-block' || change.kind === 'update-block' ? (change.operations ?? []) : [];
}
