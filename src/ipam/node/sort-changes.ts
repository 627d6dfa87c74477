import { never } from '../../base/errors.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import {
  applyOperations,
  freeOperations,
  type HolderOperation,
  isHolderOperation,
} from '../../model/slot-operation.ts';
import { formatCidr } from '../../net/cidr.ts';
import { clearOf, type EndpointChange, type Entry } from './entry.ts';
import { datastoreVersion, type LocalView } from './local-view.ts';
import type { PreallocatedAddresses } from './preallocated.ts';

export interface Decision {
  readonly node: NodeName;
  readonly preallocated: PreallocatedAddresses;
  readonly view: LocalView;
}

/** Operations on slots and endpoints of this node, and all other changes, with versions of the datastore. */
export interface SortedChanges {
  readonly entry: Entry;
  readonly otherChanges: readonly Change[];
}

/** Returns `conflict` when a slot is not in the expected state; undefined when no change concerns this node. */
export function sortChanges(changes: readonly Change[], decision: Decision): SortedChanges | 'conflict' | undefined {
  const slots: HolderOperation[] = [];
  const endpoints: EndpointChange[] = [];
  const otherChanges: Change[] = [];
  for (const change of changes) {
    const own = ownChange(change, decision);
    if (own === undefined) otherChanges.push(asStored(change));
    else if (own === 'conflict') return 'conflict';
    else if ('slots' in own) slots.push(...own.slots);
    else endpoints.push(own);
  }
  const isOurs = slots.length > 0 || endpoints.length > 0 || otherChanges.some(takesAddresses);
  return isOurs ? { entry: { slots, endpoints }, otherChanges } : undefined;
}

/** Reports whether the changes assign nothing, and were planned on the datastore itself rather than on the view. */
export function isReleaseBesideView(changes: readonly Change[]): boolean {
  return changes.every(
    (change) => 'before' in change && datastoreVersion(change.before.version) === undefined && !takesAddresses(change),
  );
}

/** Returns the change with the version of the datastore in place of the version of the view, which the datastore refuses. */
export function asStored(change: Change): Change {
  if (change.kind !== 'update-block' && change.kind !== 'delete-block') return change;
  const { value, version } = change.before;
  return { ...change, before: { value, version: datastoreVersion(version) ?? version } };
}

/** Reports whether the node may decide this alone, because no other node changes those slots. */
export function isDecidedLocally({ slots }: Entry): boolean {
  return slots.every((slot) => slot.kind === 'free' || slot.from !== undefined);
}

type OwnChange = { readonly slots: readonly HolderOperation[] } | EndpointChange;

function ownChange(change: Change, { node, preallocated, view }: Decision): OwnChange | 'conflict' | undefined {
  switch (change.kind) {
    case 'put-endpoint':
      return change.endpoint.spec.node === node ? { kind: 'put', endpoint: change.endpoint } : undefined;
    case 'delete-endpoint': {
      const { value } = change.before;
      return value.spec.node === node ? clearOf(value, change.unlessHeld) : undefined;
    }
    case 'create-block':
      // A concurrent call has just created it.
      return view.block(formatCidr(change.block.cidr)) === undefined ? undefined : 'conflict';
    case 'update-block': {
      const { before, operations } = change;
      const block = view.block(formatCidr(before.value.cidr));
      return block === undefined || !operations.every(isHolderOperation)
        ? undefined
        : fitted(block, operations, preallocated);
    }
    case 'delete-block': {
      // A release of the last addresses of a block without an owner: written later, as other releases are.
      const { before, releasedAt } = change;
      const { value } = before;
      const block = view.block(formatCidr(value.cidr));
      return block === undefined || value.node !== undefined
        ? undefined
        : fitted(
            block,
            freeOperations(value, () => true, releasedAt),
            preallocated,
          );
    }
    case 'delete-pool':
      return undefined;
    default:
      return never(change);
  }
}

/** Adapts the operations to the present block; `conflict` when they do not apply. */
function fitted(
  block: IpBlock,
  operations: readonly HolderOperation[],
  preallocated: PreallocatedAddresses,
): { readonly slots: readonly HolderOperation[] } | 'conflict' {
  const slots = operations.map((operation) => withPreallocated(block, operation, preallocated));
  return applyOperations(block, slots) === undefined ? 'conflict' : { slots };
}

/** Adds the id of a pre-allocated address, which the view shows as free, to the operation. */
function withPreallocated(
  block: IpBlock,
  operation: HolderOperation,
  preallocated: PreallocatedAddresses,
): HolderOperation {
  const preallocationId = block.preallocated.get(operation.ordinal);
  const isOwn = operation.kind === 'take' && preallocationId !== undefined && preallocated.owns(preallocationId);
  return isOwn ? { ...operation, from: preallocationId } : operation;
}

/** Reports whether the change may give the node addresses that it did not have. */
export function takesAddresses(change: Change): boolean {
  if (change.kind === 'create-block') return true;
  return change.kind === 'update-block' && change.operations.some(({ kind }) => kind === 'take');
}
