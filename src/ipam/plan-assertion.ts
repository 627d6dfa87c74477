import type { Change, NodeView, Stored } from '../datastore/allocation-store.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../model/ip-block.ts';
import { type Attachment, interfaceKey, type NodeName } from '../model/names.ts';
import { BlockDraft } from '../model/slot-operation.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { cidrAround, cidrContains, formatCidr, ordinalOf } from '../net/cidr.ts';
import { type Pool, poolAround } from './choose-pools.ts';

/** An address that a pod of this node uses, and the attachment that uses it. */
export interface AddressInUse {
  readonly address: Address;
  readonly owner: Attachment;
}

/** An address that a pod uses while the datastore records another attachment as its holder. */
export interface AddressConflict extends AddressInUse {
  readonly holder: Allocation;
}

/** The addresses in use that no block records, and those that a block records for another attachment. */
export interface Unrecorded {
  readonly missing: readonly AddressInUse[];
  readonly conflicts: readonly AddressConflict[];
}

/** The change of one block, and the addresses that it records. Each may be committed on its own. */
export interface AssertionWrite {
  readonly change: Change;
  readonly recorded: readonly AddressInUse[];
}

export interface AssertionPlan {
  /** One per block. Addresses that a block already records need none. */
  readonly writes: readonly AssertionWrite[];
  readonly conflicts: readonly AddressConflict[];
}

/**
 * Finds the addresses in use that the view does not record. Skips addresses outside of every pool, which are not managed,
 * and addresses that a pending write is about to record in a block of the view.
 */
export function findUnrecorded(
  { owned, borrowed }: Pick<NodeView, 'owned' | 'borrowed'>,
  {
    node,
    pools,
    living,
    isPending,
  }: {
    readonly node: NodeName;
    readonly pools: readonly Pool[];
    readonly living: readonly AddressInUse[];
    readonly isPending: (living: AddressInUse) => boolean;
  },
): Unrecorded {
  const blocks = [...owned, ...borrowed].map(({ value }) => value);
  const missing: AddressInUse[] = [];
  const conflicts: AddressConflict[] = [];
  for (const each of living) {
    if (poolAround(pools, each.address) === undefined) continue;
    const block = blocks.find(({ cidr }) => cidrContains(cidr, each.address));
    const holder = block?.slots.get(ordinalOf(block.cidr, each.address));
    if (block !== undefined && isPending(each)) continue;
    if (holder === undefined) missing.push(each);
    else if (!isHeldBy(holder, node, each.owner)) conflicts.push({ ...each, holder });
  }
  return { missing, conflicts };
}

/**
 * Plans to record every missing address for the attachment that uses it: in its block, whichever node owns the block, or
 * in a new block of this node. An address that another attachment holds is a conflict and is not changed.
 */
export function planAssertion(
  missing: readonly AddressInUse[],
  {
    node,
    pools,
    blocks,
    allocationOf,
  }: {
    readonly node: NodeName;
    readonly pools: readonly Pool[];
    /** Every block that contains one of the addresses. */
    readonly blocks: readonly Stored<IpBlock>[];
    readonly allocationOf: (living: AddressInUse) => Allocation;
  },
): AssertionPlan {
  const drafts = new Map<
    string,
    {
      readonly stored: Stored<IpBlock> | undefined;
      readonly pool: Pool;
      readonly recorded: AddressInUse[];
      readonly draft: BlockDraft;
    }
  >();
  const conflicts: AddressConflict[] = [];
  for (const living of missing) {
    const { address } = living;
    const pool = poolAround(pools, address);
    if (pool === undefined) continue;
    const stored = blocks.find(({ value }) => cidrContains(value.cidr, address));
    const cidr = stored?.value.cidr ?? cidrAround(address, pool.stored.value.spec.blockSize);
    const key = formatCidr(cidr);
    const written = drafts.get(key) ?? {
      stored,
      pool,
      recorded: [],
      draft: new BlockDraft(stored?.value ?? emptyBlock(cidr, node)),
    };
    const { draft } = written;
    const ordinal = ordinalOf(cidr, address);
    const holder = draft.block.slots.get(ordinal);
    if (holder !== undefined) {
      if (!isHeldBy(holder, node, living.owner)) conflicts.push({ ...living, holder });
      continue;
    }
    const from = draft.block.preallocated.get(ordinal);
    draft.apply([{ kind: 'take', block: cidr, ordinal, from, allocation: allocationOf(living) }]);
    written.recorded.push(living);
    drafts.set(key, written);
  }
  const writes = [...drafts.values()].map(({ stored, pool, recorded, draft }): AssertionWrite => ({
    recorded,
    change:
      stored === undefined
        ? {
            kind: 'create-block',
            block: emptyBlock(draft.block.cidr, node),
            pool: pool.stored,
            operations: draft.operations,
          }
        : { kind: 'update-block', before: stored, operations: draft.operations },
  }));
  return { writes, conflicts };
}

/** Returns a key that identifies an address in use. */
export function addressInUseKey({ address, owner }: AddressInUse): string {
  return `${interfaceKey(owner)} ${formatAddress(address)}`;
}

/** Ignores the network: the alias of a link has the whole container id and interface, but may cut its name. */
function isHeldBy(holder: Allocation, node: NodeName, owner: Attachment): boolean {
  return holder.node === node && interfaceKey(holder) === interfaceKey(owner);
}
