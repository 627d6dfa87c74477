import { never } from '../../base/errors.ts';
import type { Change } from '../../datastore/allocation-store.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { endpointIdOf } from '../../model/workload-endpoint.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { EndpointChange, Entry } from './entry.ts';
import { datastoreVersion, type LocalView } from './local-view.ts';
import { changeSlot, type SlotChange, slotChanges } from './slot-change.ts';
import type { OwnStock } from './own-stock.ts';
import { takenIn } from './taken-back.ts';

export interface Desk {
  readonly node: NodeName;
  readonly stock: OwnStock;
  readonly view: LocalView;
}

/** What concerns slots and endpoints of this node, and the rest, which goes to the datastore as it is. */
export interface SortedChanges {
  readonly entry: Entry;
  readonly others: readonly Change[];
}

/** `conflict` when a slot is not as the changes expect; undefined when nothing in them is this node's. */
export function sortChanges(changes: readonly Change[], desk: Desk): SortedChanges | 'conflict' | undefined {
  const slots: SlotChange[] = [];
  const endpoints: EndpointChange[] = [];
  const others: Change[] = [];
  for (const change of changes) {
    const own = ownChange(change, desk);
    if (own === undefined) others.push(asStored(change));
    else if (own === 'conflict') return 'conflict';
    else if ('slots' in own) slots.push(...own.slots);
    else endpoints.push(own);
  }
  const isOurs = slots.length > 0 || endpoints.length > 0 || others.some(takesAddresses);
  return isOurs ? { entry: { slots, endpoints }, others } : undefined;
}

/** Reports whether the changes only release, and were planned on the datastore itself rather than on the view. */
export function areReleasesBesideView(changes: readonly Change[]): boolean {
  return changes.every(
    (change) =>
      'before' in change && datastoreVersion(change.before.version) === undefined && takenIn(change).length === 0,
  );
}

/** The change with the version that the datastore knows. */
function asStored(change: Change): Change {
  if (change.kind !== 'update-block' && change.kind !== 'delete-block') return change;
  const { value, version } = change.before;
  return { ...change, before: { value, version: datastoreVersion(version) ?? version } };
}

/** Whether the node alone may decide this, because nobody else will touch those slots. */
export function mayDecide({ slots }: Entry): boolean {
  return slots.every((slot) => slot.kind === 'free' || slot.from !== undefined);
}

type OwnChange = { readonly slots: readonly SlotChange[] } | EndpointChange;

function ownChange(change: Change, { node, stock, view }: Desk): OwnChange | 'conflict' | undefined {
  switch (change.kind) {
    case 'put-endpoint':
      return change.endpoint.spec.node === node ? { kind: 'put', endpoint: change.endpoint } : undefined;
    case 'delete-endpoint': {
      const { value } = change.before;
      const { containerID: containerId, network } = value.spec;
      return value.spec.node === node ? { kind: 'clear', id: endpointIdOf(value), containerId, network } : undefined;
    }
    case 'create-block':
      // Another call has just made it.
      return view.block(formatCidr(change.block.cidr)) === undefined ? undefined : 'conflict';
    case 'update-block': {
      const block = view.block(formatCidr(change.after.cidr));
      const slots = block === undefined ? undefined : slotChanges(change.before.value, change.after);
      return block === undefined || slots === undefined ? undefined : fitted(block, slots, stock);
    }
    case 'delete-block':
    case 'delete-pool':
      return undefined;
    default:
      return never(change);
  }
}

/** The slot changes as they apply to the block as it is now. */
function fitted(
  block: IpBlock,
  slots: readonly SlotChange[],
  stock: OwnStock,
): { readonly slots: readonly SlotChange[] } | 'conflict' {
  const named = slots.map((slot) => withStock(block, slot, stock));
  let now: IpBlock | undefined = block;
  for (const slot of named) now = now === undefined ? undefined : changeSlot(now, slot);
  return now === undefined ? 'conflict' : { slots: named };
}

/** The view shows stock as free; the change names it. */
function withStock(block: IpBlock, slot: SlotChange, stock: OwnStock): SlotChange {
  const stockId = block.stock.get(slot.ordinal);
  const isOwn = slot.kind === 'take' && stockId !== undefined && stock.owns(stockId);
  return isOwn ? { ...slot, from: stockId } : slot;
}

/** Whether the change may give the node addresses that it did not have. */
export function takesAddresses({ kind }: Change): boolean {
  return kind === 'create-block' || kind === 'update-block';
}
