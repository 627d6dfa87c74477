import { NetplugError } from '../base/errors.ts';
import type { Change, Claim, NodeView, Stored } from '../datastore/allocation-store.ts';
import { type Allocation, emptyBlock, holderOf, type IpBlock, isIdle } from '../model/ip-block.ts';
import { reservedCidrs } from '../model/ip-reservation.ts';
import { isSameHolder, type NodeName } from '../model/names.ts';
import { BlockDraft } from '../model/slot-operation.ts';
import { type Address, type Family, formatAddress, sameAddress } from '../net/address.ts';
import {
  addressAt,
  type Cidr,
  cidrAround,
  cidrContains,
  cidrsOverlap,
  compareCidrs,
  formatCidr,
  ordinalOf,
  sameCidr,
} from '../net/cidr.ts';
import { type Pool, poolAround, type PoolSelection } from './choose-pools.ts';
import { consideredFor } from './considered.ts';
import { addressTaken, blockLimit, blockOverlaps, exhausted, notInPool, strictAffinity } from './assign-errors.ts';
import { freeCidrs, overlapsOneOf } from './free-cidrs.ts';
import { locked } from './locked.ts';
import { freeOrdinals } from './free-ordinals.ts';

/** A request for one address. */
export interface Want {
  readonly family: Family;
  readonly selection: PoolSelection;
  /** A specific address, in any pool. */
  readonly address: Address | undefined;
  /** Where the user requested the address, for messages. */
  readonly askedBy?: string;
  /** The allocation to record. Its node and handle also identify an address that the attachment already holds. */
  readonly allocation: Allocation;
}

export interface Lease {
  readonly address: Address;
  readonly allocation: Allocation;
  readonly block: Cidr;
  readonly pool: string;
  /** False when the attachment held the address before. */
  readonly isNew: boolean;
}

/** The input of a plan. `claims` and `foreign` are read only when a plan asks for them. */
export interface Knowledge {
  readonly view: NodeView;
  readonly pools: readonly Pool[];
  readonly claims?: readonly Claim[];
  /** Blocks of other nodes read so far. */
  readonly foreign: readonly Stored<IpBlock>[];
  /** CIDRs whose blocks were read, whether they exist or not. */
  readonly readCidrs: ReadonlySet<string>;
}

/** How many foreign blocks one read asks for, so that no read of a large cluster becomes too large. */
export const BLOCKS_PER_READ = 256;

export type AssignPlan =
  | { readonly kind: 'ready'; readonly leases: readonly Lease[]; readonly changes: readonly Change[] }
  /** Read the claims in these CIDRs, then plan again. */
  | { readonly kind: 'need-claims'; readonly within: readonly Cidr[] }
  /** Read these blocks, as far as they exist, then plan again. */
  | { readonly kind: 'need-blocks'; readonly cidrs: readonly Cidr[] }
  /** Request the pre-allocated address from the agent of the block's owner, then plan again. */
  | { readonly kind: 'need-request'; readonly block: Stored<IpBlock>; readonly ordinal: number };

/** A block with the operations planned for it so far. */
class PlannedBlock extends BlockDraft {
  readonly stored: Stored<IpBlock> | undefined;
  readonly pool: Pool | undefined;

  constructor(block: IpBlock, { stored, pool }: { readonly stored?: Stored<IpBlock>; readonly pool?: Pool }) {
    super(block);
    this.stored = stored;
    this.pool = pool;
  }
}

/**
 * Plans every requested address together. For each one, the first that applies:
 * 1. the address that the attachment already holds;
 * 2. the specific address that was requested;
 * 3. the next free address of a block that the node owns;
 * 4. an address of a new block;
 * 5. in the blocks of other nodes that were read so far (borrowed ones first, then 256 at a time): an empty block, whose
 *    ownership moves to this node;
 * 6. without strict affinity, in the same blocks: an address of the block with the most free addresses, in pool order;
 * 7. without strict affinity, an address that another node has pre-allocated, requested from its agent.
 * An empty block in a later batch is not used when an earlier batch has a free address.
 * @throws store/locked, ipam/exhausted, ipam/address-taken, ipam/address-not-in-pool, ipam/strict-affinity
 */
export function planAssign(known: Knowledge, node: NodeName, wants: readonly Want[]): AssignPlan {
  const blocks = new Map<string, PlannedBlock>();
  for (const stored of [...known.view.owned, ...known.view.borrowed, ...known.foreign]) {
    blocks.set(formatCidr(stored.value.cidr), new PlannedBlock(stored.value, { stored }));
  }
  const state: PlanState = { known, node, wants, blocks, reserved: reservedCidrs(known.view.reservations) };
  const leases: Lease[] = [];
  for (const want of wants) {
    const step = heldLease(state, want) ?? planNew(state, want);
    if ('kind' in step) return step;
    leases.push(step);
  }
  return { kind: 'ready', leases, changes: [...blocks.values()].flatMap((planned) => changesOf(planned, node)) };
}

interface PlanState {
  readonly known: Knowledge;
  readonly node: NodeName;
  readonly wants: readonly Want[];
  readonly blocks: Map<string, PlannedBlock>;
  readonly reserved: readonly Cidr[];
}

type Step = Lease | Exclude<AssignPlan, { kind: 'ready' }>;

function heldLease({ blocks, known }: PlanState, want: Want): Lease | undefined {
  for (const { block } of blocks.values()) {
    if (block.cidr.base.family !== want.family) continue;
    for (const [ordinal, allocation] of block.slots) {
      if (!isSameHolder(allocation, want.allocation)) continue;
      const address = addressAt(block.cidr, ordinal);
      if (want.address !== undefined && !sameAddress(address, want.address)) {
        throw new NetplugError(
          'ipam/address-taken',
          `Cannot assign ${formatAddress(want.address)}: this attachment holds ${formatAddress(address)} already`,
          { hint: 'Remove the pod from the network (DEL) before asking for another address' },
        );
      }
      return {
        address,
        allocation,
        block: block.cidr,
        pool: poolAround(known.pools, address)?.name ?? '',
        isNew: false,
      };
    }
  }
  return undefined;
}

function planNew(state: PlanState, want: Want): Step {
  if (state.known.view.isLocked) throw locked('assign an address', state.node);
  return want.address === undefined ? planNext(state, want) : planExact(state, want, want.address);
}

function planExact(state: PlanState, want: Want, address: Address): Step {
  const { known, node, blocks } = state;
  const pool = poolAround(known.pools, address);
  if (pool === undefined || pool.closed !== undefined) {
    throw notInPool({ address, askedBy: want.askedBy }, pool, known.pools);
  }
  const cidr = cidrAround(address, pool.stored.value.spec.blockSize);
  const planned = [...blocks.values()].find(({ block }) => cidrContains(block.cidr, address));
  if (planned === undefined) {
    if (!known.readCidrs.has(formatCidr(cidr))) return { kind: 'need-blocks', cidrs: [cidr] };
    if (known.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(state) };
    // The address may lie in a block of another size, created when the pool had another blockSize.
    const around = unreadBlocks(
      state,
      known.claims.filter((claim) => cidrContains(claim.cidr, address)),
    );
    if (around.length > 0) return { kind: 'need-blocks', cidrs: around };
    assertClaimable(state, { want, address, cidr, claims: known.claims });
    return assignOrdinal(addBlock(state, cidr, pool), ordinalOf(cidr, address), { want, pool });
  }
  const holder = holderOf(planned.block, address);
  if (holder !== undefined && !isPredecessor(holder, want.allocation)) {
    throw addressTaken({ address, askedBy: want.askedBy }, holder);
  }
  if (known.view.config.strictAffinity && planned.block.node !== node) throw strictAffinity(address, planned.block);
  const ordinal = ordinalOf(planned.block.cidr, address);
  // Only a view without an agent shows pre-allocated addresses as taken.
  if (planned.stored !== undefined && planned.block.preallocated.has(ordinal)) {
    return { kind: 'need-request', block: planned.stored, ordinal };
  }
  if (holder === undefined) planned.admit(ordinal);
  return assignOrdinal(planned, ordinal, { want, pool });
}

/**
 * Reports whether the holder is an earlier sandbox of the same pod on the same node. A pod that is replaced under its name
 * takes over its address at once. The later release of the earlier sandbox names another allocation and frees nothing.
 */
function isPredecessor(holder: Allocation, successor: Allocation): boolean {
  const isSamePod =
    holder.pod !== undefined && holder.pod === successor.pod && holder.namespace === successor.namespace;
  return isSamePod && holder.node === successor.node && holder.ifName === successor.ifName;
}

function planNext(state: PlanState, want: Want): Step {
  const { known, node, blocks } = state;
  const { eligible } = want.selection;
  if (eligible.length === 0) throw exhausted({ want, node, known, atLimit: false });
  const own = [...blocks.values()].filter(({ block }) => block.node === node).sort(byCidr);
  for (const pool of eligible) {
    for (const planned of own.filter(({ block }) => cidrContains(pool.cidr, block.cidr))) {
      const [ordinal] = freeOrdinals(planned.block, state.reserved);
      if (ordinal !== undefined) return assignOrdinal(planned, ordinal, { want, pool });
    }
  }
  if (known.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(state) };
  // Use a block that another process of this node has claimed since the view was read, before claiming one more.
  const fresh = unreadBlocks(
    state,
    known.claims.filter((claim) => claim.node === node),
  );
  if (fresh.length > 0) return { kind: 'need-blocks', cidrs: fresh };

  const atLimit = isAtLimit(state, want.family);
  return (
    (atLimit ? undefined : planNewBlock(state, want, known.claims)) ??
    planElsewhere(state, want, { atLimit, claims: known.claims })
  );
}

/** Returns the CIDRs whose claims any of the wants may need, so that claims are read once. */
function claimsNeeded({ wants, known }: PlanState): readonly Cidr[] {
  return wants.flatMap(({ selection, address }) => {
    if (address === undefined) return selection.eligible.map(({ cidr }) => cidr);
    const pool = poolAround(known.pools, address);
    return pool === undefined ? [] : [cidrAround(address, pool.stored.value.spec.blockSize)];
  });
}

/** Reports whether the node may claim no more blocks of the family. A limit of 0 means no limit. */
function isAtLimit({ known, node, blocks }: PlanState, family: Family): boolean {
  const limit = known.view.config.maxBlocksPerNode;
  const own = [...blocks.values()].filter(({ block }) => block.node === node && block.cidr.base.family === family);
  return limit > 0 && own.length >= limit;
}

/** Checks that the node may claim the block of a requested address. @throws ipam/exhausted */
function assertClaimable(
  state: PlanState,
  {
    want: { family, askedBy },
    address,
    cidr,
    claims,
  }: { readonly want: Want; readonly address: Address; readonly cidr: Cidr; readonly claims: readonly Claim[] },
): void {
  const { node, known } = state;
  const asked = { address, askedBy };
  // Ignores a claim of exactly this CIDR: it is newer than the blocks read, so the commit conflicts and is planned again.
  const overlapping = claims.find((claim) => cidrsOverlap(claim.cidr, cidr) && !sameCidr(claim.cidr, cidr));
  if (overlapping !== undefined) throw blockOverlaps(asked, cidr, overlapping);
  if (isAtLimit(state, family)) throw blockLimit(asked, { cidr, node, limit: known.view.config.maxBlocksPerNode });
}

function planNewBlock(state: PlanState, want: Want, claims: readonly Claim[]): Step | undefined {
  const isClaimed = overlapsOneOf([
    ...claims.map(({ cidr }) => cidr),
    ...[...state.blocks.values()].map(({ block }) => block.cidr),
  ]);
  for (const pool of want.selection.eligible) {
    for (const cidr of freeCidrs(pool, { isClaimed, reserved: state.reserved, node: state.node })) {
      const [ordinal] = freeOrdinals(emptyBlock(cidr, state.node), state.reserved);
      if (ordinal !== undefined) return assignOrdinal(addBlock(state, cidr, pool), ordinal, { want, pool });
    }
  }
  return undefined;
}

/**
 * Plans an address of another node's block: takes over an empty block, borrows from the block with the most free
 * addresses, or requests a pre-allocated address. @throws ipam/exhausted
 */
function planElsewhere(
  state: PlanState,
  want: Want,
  { atLimit, claims }: { atLimit: boolean; claims: readonly Claim[] },
): Step {
  const { known, node } = state;
  const { eligible } = want.selection;
  const candidates = eligible.flatMap((pool) => freeElsewhere(state, pool));
  const empty = atLimit ? undefined : candidates.find(({ planned }) => isIdle(planned.block));
  const chosen = empty ?? (known.view.config.strictAffinity ? undefined : candidates[0]);
  if (chosen !== undefined) {
    if (chosen === empty) takeOver(chosen.planned, node);
    return assignOrdinal(chosen.planned, chosen.ordinal, { want, pool: chosen.pool });
  }
  const foreign = claims.filter(({ cidr }) => eligible.some((pool) => cidrContains(pool.cidr, cidr)));
  const unread = unreadBlocks(state, foreign).slice(0, BLOCKS_PER_READ);
  if (unread.length > 0) return { kind: 'need-blocks', cidrs: unread };
  const requested = known.view.config.strictAffinity ? undefined : preallocatedElsewhere(state, eligible);
  if (requested !== undefined) return requested;
  throw exhausted({ want, node, known, atLimit });
}

/** Returns the request for a pre-allocated address, from the block of another node that has the most of them. */
function preallocatedElsewhere({ blocks, node }: PlanState, eligible: readonly Pool[]): Step | undefined {
  const [richest] = [...blocks.values()]
    .filter(({ block }) => block.node !== node && eligible.some((pool) => cidrContains(pool.cidr, block.cidr)))
    .filter(({ block }) => block.preallocated.size > 0)
    .sort((a, b) => b.block.preallocated.size - a.block.preallocated.size);
  const [ordinal] = richest?.block.preallocated.keys() ?? [];
  if (richest?.stored === undefined || ordinal === undefined) return undefined;
  return { kind: 'need-request', block: richest.stored, ordinal };
}

/** Returns the blocks of these claims that were not read yet. */
function unreadBlocks({ blocks, known }: PlanState, claims: readonly Claim[]): Cidr[] {
  return claims
    .map(({ cidr }) => cidr)
    .filter((cidr) => !known.readCidrs.has(formatCidr(cidr)) && !blocks.has(formatCidr(cidr)));
}

/** Returns blocks of other nodes in the pool that have a free address, most free addresses first. */
function freeElsewhere(
  { blocks, node, reserved }: PlanState,
  pool: Pool,
): { planned: PlannedBlock; pool: Pool; ordinal: number }[] {
  return [...blocks.values()]
    .filter(({ block }) => block.node !== node && cidrContains(pool.cidr, block.cidr))
    .flatMap((planned) => {
      const [ordinal] = freeOrdinals(planned.block, reserved);
      return ordinal === undefined ? [] : [{ planned, pool, ordinal }];
    })
    .sort(({ planned: a }, { planned: b }) => {
      const room = b.block.queue.length - a.block.queue.length;
      return room === 0 ? byCidr(a, b) : room;
    });
}

function addBlock({ blocks, node }: PlanState, cidr: Cidr, pool: Pool): PlannedBlock {
  const planned = new PlannedBlock(emptyBlock(cidr, node), { pool });
  blocks.set(formatCidr(cidr), planned);
  return planned;
}

function assignOrdinal(planned: PlannedBlock, ordinal: number, { want, pool }: { want: Want; pool: Pool }): Lease {
  const allocation = { ...want.allocation, considered: consideredFor(want.selection, pool) };
  const { cidr: block, slots } = planned.block;
  planned.apply([{ kind: 'take', block, ordinal, from: slots.get(ordinal)?.id, allocation }]);
  return { address: addressAt(block, ordinal), allocation, block, pool: pool.name, isNew: true };
}

function takeOver(planned: PlannedBlock, node: NodeName): void {
  const { cidr: block, node: from } = planned.block;
  planned.apply([{ kind: 'change-owner', block, from, to: node }]);
}

function changesOf(planned: PlannedBlock, node: NodeName): Change[] {
  const { stored, pool, operations } = planned;
  if (stored !== undefined)
    return operations.length === 0 ? [] : [{ kind: 'update-block', before: stored, operations }];
  const block = emptyBlock(planned.block.cidr, node);
  return pool === undefined ? [] : [{ kind: 'create-block', block, pool: pool.stored, operations }];
}

function byCidr(a: PlannedBlock, b: PlannedBlock): number {
  return compareCidrs(a.block.cidr, b.block.cidr);
}
