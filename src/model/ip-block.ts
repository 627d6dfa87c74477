import type { Address } from '../net/address.ts';
import { addressAt, type Cidr, cidrContains, cidrSize, ordinalOf } from '../net/cidr.ts';
import type { Handle, NodeName } from './names.ts';

/** Who holds one address, and since when. */
export interface Allocation {
  /** Never repeats, so that a late release cannot free a newer owner. */
  readonly id: string;
  readonly handle: Handle;
  /** The node on which the holder lives; differs from the block's owner when the address is borrowed. */
  readonly node: NodeName;
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly namespace?: string;
  readonly pod?: string;
  readonly podUid?: string;
  /** RFC 3339. */
  readonly at: string;
  /** Which rank of the precedence table chose the pool. */
  readonly chosenBy: ChosenBy;
  /** Which pools were considered, as `name: verdict`; of many pools a few and how many more. At most 512 bytes. */
  readonly considered?: readonly string[];
}

/**
 * How many bytes what names a holder may take in a slot: everything of an allocation but id, rank and considered pools.
 * With those a slot takes 2 KiB at most, and the largest block, of 512 slots, 1 MiB of the 1.5 MiB that etcd takes.
 */
export const MAX_HOLDER_BYTES = 1408;

/** How many slots all blocks of one write may have together, unless a single block has more: as many as the largest has. */
export const SLOTS_PER_WRITE = 512;

/**
 * Ranks of the precedence table, highest first; `request` is an address asked for by the runtime, `living-link` one that
 * the datastore had lost and that was recorded again for the link that uses it.
 */
export const CHOSEN_BY = [
  'pod-annotation',
  'namespace-annotation',
  'request',
  'netconf',
  'node-selector',
  'living-link',
] as const;
export type ChosenBy = (typeof CHOSEN_BY)[number];

/**
 * A block of addresses claimed by one node: the only record of who holds what. A slot is taken if and only if `slots`
 * has its ordinal. What the owner's agent has set aside for the next pods, so that nobody else takes it, stands in
 * `stock`; every other ordinal stands in `queue`, next to be handed out first.
 */
export interface IpBlock {
  readonly cidr: Cidr;
  /** The owner; undefined when the node is gone and others still hold addresses of the block. */
  readonly node: NodeName | undefined;
  readonly slots: ReadonlyMap<number, Allocation>;
  /** Stock ids by ordinal: `<run of the agent>#<number>`, never the same twice. */
  readonly stock: ReadonlyMap<number, string>;
  /** Ordinals in stock that another node needs, for the owner's agent to give back. */
  readonly wanted: ReadonlySet<number>;
  readonly queue: readonly number[];
}

/** A block nobody holds anything of. */
export function emptyBlock(cidr: Cidr, node: NodeName): IpBlock {
  return {
    cidr,
    node,
    slots: new Map(),
    stock: new Map(),
    wanted: new Set(),
    queue: Array.from({ length: Number(cidrSize(cidr)) }, (_, ordinal) => ordinal),
  };
}

/** The block with the ordinal taken; the caller has seen that it is free. */
export function takeSlot(block: IpBlock, ordinal: number, allocation: Allocation): IpBlock {
  return {
    ...block,
    slots: new Map(block.slots).set(ordinal, allocation),
    queue: block.queue.filter((free) => free !== ordinal),
  };
}

/** The block with the slots free that hold one of the allocation ids; they wait at the end of the queue. */
export function freeSlots(block: IpBlock, allocationIds: ReadonlySet<string>): IpBlock {
  const freed = [...block.slots].filter(([, { id }]) => allocationIds.has(id)).map(([ordinal]) => ordinal);
  if (freed.length === 0) return block;
  const slots = new Map(block.slots);
  for (const ordinal of freed) slots.delete(ordinal);
  return { ...block, slots, queue: [...block.queue, ...freed] };
}

/** The block with an ordinal of its stock, or one that is held, given to this allocation; the caller knows whose it was. */
export function handOver(block: IpBlock, ordinal: number, allocation: Allocation): IpBlock {
  const stock = new Map(block.stock);
  stock.delete(ordinal);
  return { ...block, stock, slots: new Map(block.slots).set(ordinal, allocation) };
}

/** The block with free ordinals set aside under these stock ids. */
export function setAside(block: IpBlock, ids: ReadonlyMap<number, string>): IpBlock {
  return {
    ...block,
    stock: new Map([...block.stock, ...ids]),
    queue: block.queue.filter((ordinal) => !ids.has(ordinal)),
  };
}

/** The block without the stock that `which` names; nobody used it, so it is the next to be handed out. */
export function giveBack(block: IpBlock, which: (stockId: string) => boolean): IpBlock {
  const returned = [...block.stock].filter(([, id]) => which(id)).map(([ordinal]) => ordinal);
  if (returned.length === 0) return block;
  const stock = new Map(block.stock);
  for (const ordinal of returned) stock.delete(ordinal);
  return { ...block, stock, queue: [...returned, ...block.queue] };
}

/** The block with a request for one ordinal of its stock. */
export function askFor(block: IpBlock, ordinal: number): IpBlock {
  return { ...block, wanted: new Set(block.wanted).add(ordinal) };
}

/** The block with every request answered: what is asked for and still in the stock named by `isOwn` becomes free. */
export function answerRequests(block: IpBlock, isOwn: (stockId: string) => boolean): IpBlock {
  if (block.wanted.size === 0) return block;
  const stock = new Map(block.stock);
  const freed = [...block.wanted].filter((ordinal) => isOwn(stock.get(ordinal) ?? ''));
  for (const ordinal of freed) stock.delete(ordinal);
  return { ...block, stock, wanted: new Set(), queue: [...block.queue, ...freed] };
}

/** Whether nobody holds an address of the block and no agent has set one aside. */
export function isIdle({ slots, stock }: IpBlock): boolean {
  return slots.size === 0 && stock.size === 0;
}

export interface HeldAddress {
  readonly address: Address;
  readonly allocation: Allocation;
}

/** The addresses of the block that are held, lowest first, optionally only those that pass `which`. */
export function heldAddresses(block: IpBlock, which: (allocation: Allocation) => boolean = () => true): HeldAddress[] {
  return [...block.slots]
    .filter(([, allocation]) => which(allocation))
    .sort(([a], [b]) => a - b)
    .map(([ordinal, allocation]) => ({ address: addressAt(block.cidr, ordinal), allocation }));
}

/** Who holds the address, or undefined. */
export function holderOf(block: IpBlock, address: Address): Allocation | undefined {
  return cidrContains(block.cidr, address) ? block.slots.get(ordinalOf(block.cidr, address)) : undefined;
}

/** What is wrong inside one block; nothing for a sound one. */
export function blockFaults(block: IpBlock): string[] {
  const size = Number(cidrSize(block.cidr));
  const seen = new Set<number>();
  const faults: string[] = [];
  for (const ordinal of [...block.queue, ...block.slots.keys(), ...block.stock.keys()]) {
    if (ordinal < 0 || ordinal >= size) faults.push(`ordinal ${String(ordinal)} lies outside the block`);
    if (seen.has(ordinal)) faults.push(`ordinal ${String(ordinal)} is listed twice`);
    seen.add(ordinal);
  }
  if (seen.size < size) faults.push(`${String(size - seen.size)} ordinals are neither free nor held nor in stock`);
  return faults;
}
