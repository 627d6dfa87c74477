import { NetplugError } from '../base/errors.ts';
import type { Change, Claim, NodeView, Stored } from '../datastore/allocation-store.ts';
import { lastHolderOf } from '../model/cool-down.ts';
import { type Allocation, emptyBlock, holderOf, type IpBlock, hasAddressOf, isIdle } from '../model/ip-block.ts';
import { reservedCidrs } from '../model/ip-reservation.ts';
import { isSameHolder, type NodeName } from '../model/names.ts';
import { type Address, type Family, formatAddress, sameAddress } from '../net/address.ts';
import {
  addressAt,
  type Cidr,
  cidrAround,
  cidrContains,
  cidrsOverlap,
  formatCidr,
  ordinalOf,
  sameCidr,
} from '../net/cidr.ts';
import { type Pool, poolAround, type PoolSelection } from './choose-pools.ts';
import { consideredFor } from './considered.ts';
import {
  addressTakenError,
  blockLimitError,
  blockOverlapsError,
  exhaustedError,
  notInPoolError,
  strictAffinityError,
} from './assign-errors.ts';
import { freeCidrs, overlapsOneOf } from './free-cidrs.ts';
import { lockedError } from './locked.ts';
import { type Cooling, freeOrdinals, readyOrdinals } from './free-ordinals.ts';
import { byRelease, byRoom, candidatesIn } from './block-candidates.ts';
import { blocksInOrder, changesOf, PlannedBlock } from './planned-block.ts';

/** A request for one address. */
export interface AddressRequest {
  readonly family: Family;
  readonly selection: PoolSelection;
  /** A specific address, in any pool. */
  readonly address: Address | undefined;
  /** Where the user requested the address, for messages. */
  readonly askedBy?: string;
  /** The allocation to record. Its node and handle also identify an address that the attachment already holds. */
  readonly allocation: Allocation;
}

export interface AssignedAddress {
  readonly address: Address;
  readonly allocation: Allocation;
  readonly block: Cidr;
  readonly pool: string;
  /** False when the attachment held the address before the call. */
  readonly isNew: boolean;
}

/** The input of a plan. `claims` and `extraBlocks` are read only when a plan requests them. */
export interface PlanInput {
  readonly view: NodeView;
  readonly pools: readonly Pool[];
  /** The time of the plan, in milliseconds since 1970. */
  readonly nowMs: number;
  readonly claims?: readonly Claim[];
  /** Blocks read in addition to the view, of this node or others. */
  readonly extraBlocks: readonly Stored<IpBlock>[];
  /** CIDRs whose blocks were read, whether they exist or not. */
  readonly readCidrs: ReadonlySet<string>;
}

/** Number of blocks that one read requests, so that no read of a large cluster becomes too large. */
export const BLOCKS_PER_READ = 256;

export type AssignPlan =
  | { readonly kind: 'ready'; readonly assigned: readonly AssignedAddress[]; readonly changes: readonly Change[] }
  /** Read the claims in these CIDRs, then plan again. */
  | { readonly kind: 'need-claims'; readonly within: readonly Cidr[] }
  /** Read these blocks, as far as they exist, then plan again. */
  | { readonly kind: 'need-blocks'; readonly cidrs: readonly Cidr[] }
  /** Request the pre-allocated address from the agent of the block's owner, then plan again. */
  | { readonly kind: 'need-request'; readonly block: Stored<IpBlock>; readonly ordinal: number };

/**
 * Plans every requested address together. For each one, the first that applies:
 * 1. the address that the attachment already holds;
 * 2. the specific address that was requested, in a new block without an owner unless there is one;
 * 3. the next free address of a block that the node owns, unless it cools down;
 * 4. an address of a new block;
 * 5. the address of a block that the node owns which was released first;
 * 6. in the blocks of other nodes that were read so far (borrowed ones first, then 256 at a time): an empty block or one
 *    without an owner, whose ownership moves to this node;
 * 7. without strict affinity, in the same blocks: an address of the block with the most free addresses, in pool order;
 * 8. without strict affinity, an address that another node has pre-allocated, requested from its agent.
 * An empty block in a later batch is not used when an earlier batch has a free address. In the blocks of other nodes, addresses
 * that cool down come after all others of the batch.
 * @throws store/locked, ipam/exhausted, ipam/address-taken, ipam/address-not-in-pool, ipam/strict-affinity
 */
export function planAssign(input: PlanInput, node: NodeName, requests: readonly AddressRequest[]): AssignPlan {
  const blocks = new Map<string, PlannedBlock>();
  for (const stored of [...input.view.owned, ...input.view.borrowed, ...input.extraBlocks]) {
    blocks.set(formatCidr(stored.value.cidr), new PlannedBlock(stored.value, { stored }));
  }
  const state: PlanState = { input, node, requests, blocks, reserved: reservedCidrs(input.view.reservations) };
  const assigned: AssignedAddress[] = [];
  for (const request of requests) {
    const step = heldAddress(state, request) ?? planUnheld(state, request);
    if ('kind' in step) return step;
    assigned.push(step);
  }
  return { kind: 'ready', assigned, changes: [...blocks.values()].flatMap((planned) => changesOf(planned)) };
}

interface PlanState {
  readonly input: PlanInput;
  readonly node: NodeName;
  readonly requests: readonly AddressRequest[];
  readonly blocks: Map<string, PlannedBlock>;
  readonly reserved: readonly Cidr[];
}

type PlannedAddressOrRead = AssignedAddress | Exclude<AssignPlan, { kind: 'ready' }>;

/**
 * Returns the address that the attachment holds. It holds several when the write of a process that died arrived after its
 * successor had answered; the answer is the one of the call that began last.
 *
 * A call without an agent takes it again under an id of its own: a process that hangs may take back what it wrote for a caller
 * that has given up, and then finds the id of its own write no more.
 */
function heldAddress({ blocks, input }: PlanState, request: AddressRequest): AssignedAddress | undefined {
  let latest: { readonly ordinal: number; readonly allocation: Allocation; readonly planned: PlannedBlock } | undefined;
  for (const planned of blocks.values()) {
    const { block } = planned;
    if (block.cidr.base.family !== request.family || !hasAddressOf(block, request.allocation.handle)) continue;
    for (const [ordinal, allocation] of block.slots) {
      if (!isSameHolder(allocation, request.allocation)) continue;
      if (latest !== undefined && latest.allocation.at >= allocation.at) continue;
      latest = { ordinal, allocation, planned };
    }
  }
  if (latest === undefined) return undefined;
  const { ordinal, planned } = latest;
  const { cidr } = planned.block;
  const address = addressAt(cidr, ordinal);
  if (request.address !== undefined && !sameAddress(address, request.address)) {
    throw new NetplugError(
      'ipam/address-taken',
      `Cannot assign ${formatAddress(request.address)}: this attachment holds ${formatAddress(address)} already`,
      { hint: 'Remove the pod from the network (DEL) before asking for another address' },
    );
  }
  const { id } = request.allocation;
  const held = { address, block: cidr, pool: poolAround(input.pools, address)?.name ?? '' };
  // An earlier try of this call has written it, and the answer was lost.
  if (latest.allocation.id === id) return { ...held, allocation: latest.allocation, isNew: true };
  const { isLocked, latest: isFromAgent } = input.view;
  if (isLocked || isFromAgent !== undefined) return { ...held, allocation: latest.allocation, isNew: false };
  const allocation = { ...latest.allocation, id };
  planned.apply([{ kind: 'take', block: cidr, ordinal, from: latest.allocation.id, allocation }]);
  return { ...held, allocation, isNew: false };
}

function planUnheld(state: PlanState, request: AddressRequest): PlannedAddressOrRead {
  if (state.input.view.isLocked) throw lockedError('assign an address', state.node);
  return request.address === undefined ? planAnyAddress(state, request) : planExact(state, request, request.address);
}

function planExact(state: PlanState, request: AddressRequest, address: Address): PlannedAddressOrRead {
  const { input, node, blocks } = state;
  const asked = { address, askedBy: request.askedBy };
  const pool = poolAround(input.pools, address);
  if (pool === undefined || pool.closed !== undefined) {
    throw notInPoolError(asked, pool, input.pools);
  }
  const cidr = cidrAround(address, pool.stored.value.spec.blockSize);
  const planned = [...blocks.values()].find(({ block }) => cidrContains(block.cidr, address));
  if (planned === undefined) {
    if (!input.readCidrs.has(formatCidr(cidr))) return { kind: 'need-blocks', cidrs: [cidr] };
    if (input.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(state) };
    // The address may lie in a block of another size, created when the pool had another blockSize.
    const blocksAroundAddress = unreadBlocks(
      state,
      input.claims.filter((claim) => cidrContains(claim.cidr, address)),
    );
    if (blocksAroundAddress.length > 0) return { kind: 'need-blocks', cidrs: blocksAroundAddress };
    // Ignores a claim of exactly this CIDR: it is newer than the blocks read, so the commit conflicts and is planned again.
    const overlapping = input.claims.find((claim) => cidrsOverlap(claim.cidr, cidr) && !sameCidr(claim.cidr, cidr));
    if (overlapping !== undefined) throw blockOverlapsError(asked, cidr, overlapping);
    if (isAtLimit(state, request.family, 'requested'))
      throw blockLimitError(asked, { cidr, node, limit: input.view.config.maxBlocksPerNode });
    // Owned by no node, so that the address takes no other one from the rest of the cluster.
    const added = addBlock(state, { cidr, pool, owner: undefined });
    return assignOrdinal(added, ordinalOf(cidr, address), { request, pool });
  }
  const holder = holderOf(planned.block, address);
  if (holder !== undefined && !isPredecessor(holder, request.allocation)) {
    throw addressTakenError(asked, { holder, successor: request.allocation });
  }
  const isElsewhere = planned.block.node !== undefined && planned.block.node !== node;
  if (input.view.config.strictAffinity && isElsewhere && holder === undefined)
    throw strictAffinityError(address, planned.block);
  const ordinal = ordinalOf(planned.block.cidr, address);
  // Only a view without an agent shows pre-allocated addresses as taken.
  if (planned.stored !== undefined && planned.block.preallocated.has(ordinal)) {
    return { kind: 'need-request', block: planned.stored, ordinal };
  }
  if (holder === undefined) planned.makeAssignable(ordinal);
  return assignOrdinal(planned, ordinal, { request, pool });
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

function planAnyAddress(state: PlanState, request: AddressRequest): PlannedAddressOrRead {
  const { input, node, blocks } = state;
  const { eligible } = request.selection;
  if (eligible.length === 0) throw exhaustedError({ request, node, input, atLimit: false });
  const own = [...blocks.values()].filter(({ block }) => block.node === node).sort(blocksInOrder);
  for (const pool of eligible) {
    for (const planned of own.filter(({ block }) => cidrContains(pool.cidr, block.cidr))) {
      const [ordinal] = readyOrdinals(planned.block, state.reserved, coolingFor(state, request));
      if (ordinal !== undefined) return assignOrdinal(planned, ordinal, { request, pool });
    }
  }
  if (input.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(state) };
  // Use a block that another process of this node has claimed since the view was read, before claiming one more.
  const newlyClaimed = unreadBlocks(
    state,
    input.claims.filter((claim) => claim.node === node),
  );
  if (newlyClaimed.length > 0) return { kind: 'need-blocks', cidrs: newlyClaimed };

  const atLimit = isAtLimit(state, request.family, 'any');
  return (
    (atLimit ? undefined : planNewBlock(state, request, input.claims)) ??
    planCooling(state, request, own) ??
    planFromOtherNodes(state, request, { atLimit, claims: input.claims })
  );
}

/** What says whether an address cools down for the request: it does not for its last holder. */
function coolingFor({ input }: PlanState, { allocation }: AddressRequest): Cooling {
  const seconds = input.view.config.cooldownSeconds;
  return { nowMs: input.nowMs, seconds, holder: lastHolderOf(allocation) };
}

/** Plans the address of an own block that has cooled down longest: no other one is left, or only in blocks of other nodes. */
function planCooling(
  state: PlanState,
  request: AddressRequest,
  own: readonly PlannedBlock[],
): AssignedAddress | undefined {
  const options = { reserved: state.reserved, cooling: coolingFor(state, request) };
  for (const pool of request.selection.eligible) {
    const [first] = candidatesIn(pool, own, options).sort(byRelease);
    if (first !== undefined) return assignOrdinal(first.planned, first.ordinal, { request, pool });
  }
  return undefined;
}

/** Returns the CIDRs whose claims any of the requests may need, so that claims are read once. */
function claimsNeeded({ requests, input }: PlanState): readonly Cidr[] {
  return requests.flatMap(({ selection, address }) => {
    if (address === undefined) return selection.eligible.map(({ cidr }) => cidr);
    const pool = poolAround(input.pools, address);
    return pool === undefined ? [] : [cidrAround(address, pool.stored.value.spec.blockSize)];
  });
}

/**
 * Reports whether the node may claim no more blocks of the family. A limit of 0 means no limit. For an address that was asked for,
 * blocks without an owner in which only this node has addresses count as well: without them users could make any number of
 * blocks. For any other address they do not, or users could use up the limit of the node.
 */
function isAtLimit({ input, node, blocks }: PlanState, family: Family, address: 'any' | 'requested'): boolean {
  const limit = input.view.config.maxBlocksPerNode;
  if (limit === 0) return false;
  const counted = [...blocks.values()].filter(
    ({ block }) =>
      block.cidr.base.family === family && (block.node === node || (address === 'requested' && isOnlyOf(block, node))),
  );
  return counted.length >= limit;
}

/** Reports whether the block has no owner, and only addresses that the node holds. */
function isOnlyOf({ node: owner, slots }: IpBlock, node: NodeName): boolean {
  return owner === undefined && slots.size > 0 && [...slots.values()].every((held) => held.node === node);
}

function planNewBlock(
  state: PlanState,
  request: AddressRequest,
  claims: readonly Claim[],
): PlannedAddressOrRead | undefined {
  const isClaimed = overlapsOneOf([
    ...claims.map(({ cidr }) => cidr),
    ...[...state.blocks.values()].map(({ block }) => block.cidr),
  ]);
  for (const pool of request.selection.eligible) {
    for (const cidr of freeCidrs(pool, { isClaimed, reserved: state.reserved, node: state.node })) {
      const [ordinal] = freeOrdinals(emptyBlock(cidr, state.node), state.reserved);
      if (ordinal !== undefined)
        return assignOrdinal(addBlock(state, { cidr, pool, owner: state.node }), ordinal, { request, pool });
    }
  }
  return undefined;
}

/**
 * Plans an address of another node's block: takes over an empty block, borrows from the block with the most free
 * addresses, or requests a pre-allocated address. @throws ipam/exhausted
 */
function planFromOtherNodes(
  state: PlanState,
  request: AddressRequest,
  { atLimit, claims }: { atLimit: boolean; claims: readonly Claim[] },
): PlannedAddressOrRead {
  const { input, node } = state;
  const { eligible } = request.selection;
  const others = [...state.blocks.values()].filter(({ block }) => block.node !== node);
  const options = { reserved: state.reserved, cooling: coolingFor(state, request) };
  const offers = eligible.flatMap((pool) => candidatesIn(pool, others, options).sort(byRoom));
  const ready = offers.filter(({ isCooling }) => !isCooling);
  const candidates = ready.length > 0 ? ready : offers;
  const claimable =
    candidates.find(({ planned }) => isIdle(planned.block)) ??
    candidates.find(({ planned }) => planned.block.node === undefined);
  const taken = atLimit ? undefined : claimable;
  const chosen = taken ?? (input.view.config.strictAffinity ? undefined : candidates[0]);
  if (chosen !== undefined) {
    if (chosen === taken) takeOver(chosen.planned, node);
    return assignOrdinal(chosen.planned, chosen.ordinal, { request, pool: chosen.pool });
  }
  const inPools = claims.filter(({ cidr }) => eligible.some((pool) => cidrContains(pool.cidr, cidr)));
  const unread = unreadBlocks(state, inPools).slice(0, BLOCKS_PER_READ);
  if (unread.length > 0) return { kind: 'need-blocks', cidrs: unread };
  const preallocated = preallocatedByAgent(state, eligible);
  if (preallocated !== undefined) return preallocated;
  throw exhaustedError({ request, node, input, atLimit });
}

/**
 * Returns the request for a pre-allocated address from the block of another node that has the most of them, else from a block
 * of this node whose agent, another process, has pre-allocated any.
 */
function preallocatedByAgent(
  { blocks, node, input: { view } }: PlanState,
  eligible: readonly Pool[],
): PlannedAddressOrRead | undefined {
  const isAgent = view.latest !== undefined;
  const isOwn = (block: IpBlock): boolean => block.node === node;
  const candidates = [...blocks.values()]
    .filter(({ block }) => (isOwn(block) ? !isAgent : !view.config.strictAffinity))
    .filter(({ block }) => block.preallocated.size > 0 && eligible.some((pool) => cidrContains(pool.cidr, block.cidr)))
    .sort((a, b) => b.block.preallocated.size - a.block.preallocated.size);
  const mostPreallocated = candidates.find(({ block }) => !isOwn(block)) ?? candidates[0];
  const [ordinal] = mostPreallocated?.block.preallocated.keys() ?? [];
  if (mostPreallocated?.stored === undefined || ordinal === undefined) return undefined;
  return { kind: 'need-request', block: mostPreallocated.stored, ordinal };
}

/** Returns the blocks of these claims that were not read yet. */
function unreadBlocks({ blocks, input }: PlanState, claims: readonly Claim[]): Cidr[] {
  return claims
    .map(({ cidr }) => cidr)
    .filter((cidr) => !input.readCidrs.has(formatCidr(cidr)) && !blocks.has(formatCidr(cidr)));
}

function addBlock(
  { blocks }: PlanState,
  { cidr, pool, owner }: { readonly cidr: Cidr; readonly pool: Pool; readonly owner: NodeName | undefined },
): PlannedBlock {
  const planned = new PlannedBlock(emptyBlock(cidr, owner), { pool, owner });
  blocks.set(formatCidr(cidr), planned);
  return planned;
}

function assignOrdinal(
  planned: PlannedBlock,
  ordinal: number,
  { request, pool }: { request: AddressRequest; pool: Pool },
): AssignedAddress {
  const allocation = { ...request.allocation, considered: consideredFor(request.selection, pool) };
  const { cidr: block, slots } = planned.block;
  planned.apply([{ kind: 'take', block, ordinal, from: slots.get(ordinal)?.id, allocation }]);
  return { address: addressAt(block, ordinal), allocation, block, pool: pool.name, isNew: true };
}

function takeOver(planned: PlannedBlock, node: NodeName): void {
  const { cidr: block, node: from } = planned.block;
  planned.apply([{ kind: 'change-owner', block, from, to: node }]);
}
