import { invariant, never } from '../base/errors.ts';
import { type Cidr, formatCidr, sameCidr } from '../net/cidr.ts';
import { lastHolderOf, noteRelease } from './cool-down.ts';
import type { Allocation, IpBlock, LastRelease } from './ip-block.ts';
import type { Handle, NodeName } from './names.ts';

/** Identifies one slot. */
interface Slot {
  readonly block: Cidr;
  readonly ordinal: number;
}

/** Records an allocation in a slot. */
export interface TakeSlot extends Slot {
  readonly kind: 'take';
  /** Id of the allocation or of the pre-allocated address that the slot holds until then; undefined when it is free. */
  readonly from: string | undefined;
  readonly allocation: Allocation;
}

/** Frees the slot of an allocation. */
export interface FreeSlot extends Slot {
  readonly kind: 'free';
  /** Id of the allocation. */
  readonly id: string;
  /** Identifies the attachment that holds the address until then. */
  readonly handle: Handle;
  /** When the address was released, in seconds since 1970: it cools down from then on. Absent when it was never used. */
  readonly releasedAt?: number;
}

/** Changes the holder of an address. It may be applied late and more than once, because ids are never reused. */
export type HolderOperation = TakeSlot | FreeSlot;

/** One operation on a block. Each names by id what the slot holds before. */
export type SlotOperation =
  | HolderOperation
  /** Pre-allocates a free address under an id. */
  | (Slot & { readonly kind: 'preallocate'; readonly id: string })
  /** Frees a pre-allocated address. It is the next to be assigned, or the last when another node has requested it. */
  | (Slot & { readonly kind: 'reclaim'; readonly id: string })
  /** Requests a pre-allocated address of another node from the agent of that node. */
  | (Slot & { readonly kind: 'request'; readonly id: string })
  /** Removes a request whose address is no longer pre-allocated. */
  | (Slot & { readonly kind: 'drop-request' })
  | {
      readonly kind: 'change-owner';
      readonly block: Cidr;
      readonly from: NodeName | undefined;
      readonly to: NodeName | undefined;
    };

/** Reports whether the operation changes the holder of an address. */
export function isHolderOperation(operation: SlotOperation): operation is HolderOperation {
  return operation.kind === 'take' || operation.kind === 'free';
}

/** Returns the attachment that the operation concerns. */
export function handleIn(operation: HolderOperation): Handle {
  return operation.kind === 'take' ? operation.allocation.handle : operation.handle;
}

/** Returns the operation that frees what a take records. Without `releasedAt` the address was never used. */
export function undoOf({ block, ordinal, allocation }: TakeSlot, releasedAt?: number): FreeSlot {
  return freeOf({ block, ordinal }, allocation, releasedAt);
}

/** Returns what frees every allocation of the block that passes `which`. Without `releasedAt` none was ever used. */
export function freeOperations(
  { cidr: block, slots }: IpBlock,
  which: (allocation: Allocation) => boolean,
  releasedAt?: number,
): FreeSlot[] {
  return [...slots].flatMap(([ordinal, allocation]) =>
    which(allocation) ? freeOf({ block, ordinal }, allocation, releasedAt) : [],
  );
}

function freeOf(slot: Slot, { id, handle }: Allocation, releasedAt: number | undefined): FreeSlot {
  return { kind: 'free', ...slot, id, handle, ...(releasedAt === undefined ? {} : { releasedAt }) };
}

/** Returns what frees every pre-allocated address of the block whose id passes `which`; they keep their order. */
export function reclaimOperations({ cidr, preallocated }: IpBlock, which: (id: string) => boolean): SlotOperation[] {
  return [...preallocated]
    .flatMap(([ordinal, id]): SlotOperation[] => (which(id) ? [{ kind: 'reclaim', block: cidr, ordinal, id }] : []))
    .toReversed();
}

/**
 * Returns the block with the operations applied in order, the same object when all of them are applied already, or
 * undefined when a slot does not hold what an operation names.
 */
export function applyOperations(block: IpBlock, operations: readonly SlotOperation[]): IpBlock | undefined {
  if (operations.every((operation) => isApplied(block, operation))) return block;
  const draft: Draft = {
    node: block.node,
    slots: new Map(block.slots),
    preallocated: new Map(block.preallocated),
    requested: new Set(block.requested),
    queue: [...block.queue],
    released: new Map(block.released),
  };
  for (const operation of operations) {
    invariant(sameCidr(operation.block, block.cidr), `an operation names a block other than ${formatCidr(block.cidr)}`);
    if (!isApplied(draft, operation) && !apply(draft, operation)) return undefined;
  }
  return { cidr: block.cidr, ...draft };
}

/**
 * Returns the block with an operation of this node that a pod may depend on already: an allocation is recorded unless
 * another one holds the slot, even when the pre-allocated address has been reclaimed.
 */
export function insistOn(block: IpBlock, operation: SlotOperation): SlotOperation {
  if (operation.kind !== 'take' || block.slots.has(operation.ordinal)) return operation;
  return { ...operation, from: block.preallocated.get(operation.ordinal) };
}

/** A block and the operations that lead to it. */
export class BlockDraft {
  readonly #operations: SlotOperation[] = [];
  #block: IpBlock;

  constructor(block: IpBlock) {
    this.#block = block;
  }

  get block(): IpBlock {
    return this.#block;
  }

  /** In the order in which they were applied; none that was applied to the block before. */
  get operations(): readonly SlotOperation[] {
    return this.#operations;
  }

  /** Makes a free address available that the view of the block does not offer, such as one outside of a warm pool. */
  makeAssignable(ordinal: number): void {
    if (!this.#block.queue.includes(ordinal)) this.#block = { ...this.#block, queue: [...this.#block.queue, ordinal] };
  }

  /** Applies the operations. The caller has planned them on this block. */
  apply(operations: readonly SlotOperation[]): void {
    const after = applyOperations(this.#block, operations);
    invariant(after !== undefined, `an operation does not fit block ${formatCidr(this.#block.cidr)}`);
    if (after !== this.#block) this.#operations.push(...operations);
    this.#block = after;
  }
}

type Draft = {
  node: NodeName | undefined;
  readonly slots: Map<number, Allocation>;
  readonly preallocated: Map<number, string>;
  readonly requested: Set<number>;
  readonly queue: number[];
  readonly released: Map<number, LastRelease>;
};

function isApplied(
  { node, slots, preallocated, requested }: Pick<IpBlock, 'node' | 'slots' | 'preallocated' | 'requested'>,
  operation: SlotOperation,
): boolean {
  switch (operation.kind) {
    case 'take':
      return slots.get(operation.ordinal)?.id === operation.allocation.id;
    case 'free':
      return slots.get(operation.ordinal)?.id !== operation.id;
    case 'preallocate':
      return preallocated.get(operation.ordinal) === operation.id;
    case 'reclaim':
      return preallocated.get(operation.ordinal) !== operation.id;
    case 'request':
      return requested.has(operation.ordinal);
    case 'drop-request':
      return !requested.has(operation.ordinal);
    case 'change-owner':
      return node === operation.to;
    default:
      return never(operation);
  }
}

/** Returns false when the slot does not hold what the operation names. */
function apply(draft: Draft, operation: SlotOperation): boolean {
  const { slots, preallocated, requested, queue, released } = draft;
  switch (operation.kind) {
    case 'take': {
      const { ordinal, from, allocation } = operation;
      const holds = slots.get(ordinal)?.id ?? preallocated.get(ordinal);
      if (holds !== from || (from === undefined && !dequeue(queue, ordinal))) return false;
      preallocated.delete(ordinal);
      released.delete(ordinal);
      slots.set(ordinal, allocation);
      return true;
    }
    case 'free': {
      const { ordinal, releasedAt } = operation;
      const held = slots.get(ordinal);
      if (held !== undefined && releasedAt !== undefined)
        noteRelease(released, ordinal, { at: releasedAt, holder: lastHolderOf(held) });
      slots.delete(ordinal);
      queue.push(ordinal);
      return true;
    }
    case 'preallocate':
      if (!dequeue(queue, operation.ordinal)) return false;
      released.delete(operation.ordinal);
      preallocated.set(operation.ordinal, operation.id);
      return true;
    case 'reclaim':
      preallocated.delete(operation.ordinal);
      if (requested.delete(operation.ordinal)) queue.push(operation.ordinal);
      else queue.unshift(operation.ordinal);
      return true;
    case 'request':
      if (preallocated.get(operation.ordinal) !== operation.id) return false;
      requested.add(operation.ordinal);
      return true;
    case 'drop-request':
      requested.delete(operation.ordinal);
      return true;
    case 'change-owner':
      if (draft.node !== operation.from) return false;
      draft.node = operation.to;
      return true;
    default:
      return never(operation);
  }
}

function dequeue(queue: number[], ordinal: number): boolean {
  const at = queue.indexOf(ordinal);
  if (at !== -1) queue.splice(at, 1);
  return at !== -1;
}
