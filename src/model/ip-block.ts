import type { Address } from '../net/address.ts';
import { addressAt, type Cidr, cidrContains, cidrSize, ordinalOf } from '../net/cidr.ts';
import type { Handle, NodeName } from './names.ts';

/** The holder of one address, and since when. */
export interface Allocation {
  /** Never repeats, so that a late release cannot free a newer owner. */
  readonly id: string;
  readonly handle: Handle;
  /** The node of the holder; differs from the block's owner when the address is borrowed. */
  readonly node: NodeName;
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly namespace?: string;
  readonly pod?: string;
  readonly podUid?: string;
  /** RFC 3339. */
  readonly at: string;
  /** The rank of the precedence table that chose the pool. */
  readonly chosenBy: ChosenBy;
  /** The pools considered, as `name: verdict`; of many pools only the first ones and a count. At most 512 bytes. */
  readonly considered?: readonly string[];
}

/** The last release of an address that is free. */
export interface LastRelease {
  /** Seconds since 1970. */
  readonly at: number;
  /** The pod that held it, `namespace/name`, or the handle of an attachment without a pod. */
  readonly holder: string;
}

/**
 * The most bytes of an allocation without id, rank and considered pools. With those a slot takes at most 2 KiB, and the
 * largest block, with 512 slots, 1 MiB of the 1.5 MiB that etcd accepts.
 */
export const MAX_HOLDER_BYTES = 1408;

/** The most slots that the blocks of one write have together: as many as the largest block. */
export const SLOTS_PER_WRITE = 512;

/**
 * Ranks of the precedence table, highest first. `request` is an address that the runtime requested. `living-link` is an
 * address that the datastore had lost and that was recorded again for the link that uses it.
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
 * A block of addresses claimed by one node: the only record of the holders of addresses. An address is assigned if and
 * only if `slots` has its ordinal. Addresses that the owner's agent has pre-allocated for the next pods are in
 * `preallocated`. Every other ordinal is in `queue`, the next to be assigned first.
 */
export interface IpBlock {
  readonly cidr: Cidr;
  /**
   * The owner; undefined for a block that was made for an address asked for explicitly, and when the node was removed while
   * other nodes hold addresses of the block. Any node that needs addresses may become the owner.
   */
  readonly node: NodeName | undefined;
  readonly slots: ReadonlyMap<number, Allocation>;
  /** Ids of pre-allocated addresses by ordinal: `<run of the agent>#<number>`. An id is never reused. */
  readonly preallocated: ReadonlyMap<number, string>;
  /** Pre-allocated ordinals that another node has requested, for the owner's agent to reclaim. */
  readonly requested: ReadonlySet<number>;
  readonly queue: readonly number[];
  /**
   * The last release of free addresses, by ordinal, for as long as they may cool down. None for an address that was never used,
   * or that an older release of netplug freed.
   */
  readonly released: ReadonlyMap<number, LastRelease>;
}

/** Returns a block in which every address is free. */
export function emptyBlock(cidr: Cidr, node: NodeName | undefined): IpBlock {
  return {
    cidr,
    node,
    slots: new Map(),
    preallocated: new Map(),
    requested: new Set(),
    queue: Array.from({ length: Number(cidrSize(cidr)) }, (_, ordinal) => ordinal),
    released: new Map(),
  };
}

/** Reports whether no attachment holds an address of the block and no agent has pre-allocated one. */
export function isIdle({ slots, preallocated }: IpBlock): boolean {
  return slots.size === 0 && preallocated.size === 0;
}

export interface HeldAddress {
  readonly address: Address;
  readonly allocation: Allocation;
}

/** Returns the addresses of the block that are held, lowest first, optionally only those that pass `which`. */
export function heldAddresses(block: IpBlock, which: (allocation: Allocation) => boolean = () => true): HeldAddress[] {
  return [...block.slots]
    .filter(([, allocation]) => which(allocation))
    .sort(([a], [b]) => a - b)
    .map(([ordinal, allocation]) => ({ address: addressAt(block.cidr, ordinal), allocation }));
}

/** Returns the holder of the address, or undefined. */
export function holderOf(block: IpBlock, address: Address): Allocation | undefined {
  return cidrContains(block.cidr, address) ? block.slots.get(ordinalOf(block.cidr, address)) : undefined;
}

/** Handles by the slots of a block, which never change: of the thousands of a node nearly all are the same at the next call. */
const handles = new WeakMap<IpBlock['slots'], ReadonlySet<Handle>>();

/** Reports whether an attachment with the handle holds an address of the block, on whatever node. */
export function hasAddressOf({ slots }: IpBlock, handle: Handle): boolean {
  let known = handles.get(slots);
  if (known === undefined) {
    known = new Set([...slots.values()].map((allocation) => allocation.handle));
    handles.set(slots, known);
  }
  return known.has(handle);
}

/** Returns the inconsistencies of a block. */
export function blockFaults(block: IpBlock): string[] {
  const size = Number(cidrSize(block.cidr));
  const seen = new Set<number>();
  const faults: string[] = [];
  for (const ordinal of [...block.queue, ...block.slots.keys(), ...block.preallocated.keys()]) {
    if (ordinal < 0 || ordinal >= size) faults.push(`ordinal ${String(ordinal)} lies outside the block`);
    if (seen.has(ordinal)) faults.push(`ordinal ${String(ordinal)} is listed twice`);
    seen.add(ordinal);
  }
  if (seen.size < size) faults.push(`${String(size - seen.size)} ordinals are neither free nor held nor pre-allocated`);
  return faults;
}
