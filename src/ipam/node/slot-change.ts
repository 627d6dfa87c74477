import { type Allocation, freeSlots, handOver, type IpBlock, takeSlot } from '../../model/ip-block.ts';
import type { Handle } from '../../model/names.ts';
import type { Cidr } from '../../net/cidr.ts';

/**
 * One change of one address that stays right however late it is made and however often: it names what the slot must
 * hold now, and ids never repeat.
 */
export type SlotChange =
  | {
      readonly kind: 'take';
      readonly block: Cidr;
      readonly ordinal: number;
      /** Stock or allocation id that the slot holds until then; undefined when it is free. */
      readonly from: string | undefined;
      readonly allocation: Allocation;
    }
  | {
      readonly kind: 'free';
      readonly block: Cidr;
      readonly ordinal: number;
      readonly id: string;
      /** Whose address it is until then. */
      readonly handle: Handle;
    };

/** The attachment that the change concerns. */
export function handleIn(change: SlotChange): Handle {
  return change.kind === 'take' ? change.allocation.handle : change.handle;
}

/** The block with the change made, or as it is when it was made already; undefined when it cannot be made any more. */
export function changeSlot(block: IpBlock, change: SlotChange): IpBlock | undefined {
  const { ordinal } = change;
  const holder = block.slots.get(ordinal)?.id;
  if (change.kind === 'free') return holder === change.id ? freeSlots(block, new Set([change.id])) : block;
  const { from, allocation } = change;
  if (holder === allocation.id) return block;
  if (from === undefined) return block.queue.includes(ordinal) ? takeSlot(block, ordinal, allocation) : undefined;
  return (block.stock.get(ordinal) ?? holder) === from ? handOver(block, ordinal, allocation) : undefined;
}

/**
 * The same for an address that a pod has been told: it is recorded as long as nobody else holds it, even if somebody has
 * taken the stock from under it.
 */
export function insistOnSlot(block: IpBlock, change: SlotChange): IpBlock | undefined {
  const { ordinal } = change;
  const changed = changeSlot(block, change);
  if (changed !== undefined || change.kind === 'free' || block.slots.has(ordinal)) return changed;
  const { allocation } = change;
  return block.stock.has(ordinal) ? handOver(block, ordinal, allocation) : takeSlot(block, ordinal, allocation);
}

/** What turns `before` into `after`, slot by slot; undefined when the block goes to another node. */
export function slotChanges(before: IpBlock, after: IpBlock): readonly SlotChange[] | undefined {
  if (before.node !== after.node) return undefined;
  const changes: SlotChange[] = [];
  for (const [ordinal, { id, handle }] of before.slots) {
    if (!after.slots.has(ordinal)) changes.push({ kind: 'free', block: before.cidr, ordinal, id, handle });
  }
  for (const [ordinal, allocation] of after.slots) {
    const old = before.slots.get(ordinal);
    if (old?.id === allocation.id) continue;
    const from = old?.id ?? before.stock.get(ordinal);
    changes.push({ kind: 'take', block: before.cidr, ordinal, from, allocation });
  }
  return changes;
}
