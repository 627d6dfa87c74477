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

/** One address that a call asks for. */
export interface Want {
  readonly family: Family;
  readonly selection: PoolSelection;
  /** A certain address, whatever pool it lies in. */
  readonly address: Address | undefined;
  /** Where the address is asked for, for messages. */
  readonly askedBy?: string;
  /** What to record; its node and handle also find an address held already. */
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

/** What is known beyond the node's own view; each is read only when a plan asks for it. */
export interface Knowledge {
  readonly view: NodeView;
  readonly pools: readonly Pool[];
  readonly claims?: readonly Claim[];
  /** Blocks of other nodes read so far. */
  readonly others: readonly Stored<IpBlock>[];
  /** CIDRs whose blocks were asked for, whether they exist or not. */
  readonly looked: ReadonlySet<string>;
}

/** How many foreign blocks one read asks for: a large cluster is searched in pieces. */
export const BLOCKS_PER_READ = 256;

export type AssignPlan =
  | { readonly kind: 'ready'; readonly leases: readonly Lease[]; readonly changes: readonly Change[] }
  /** Plan again when the claims in these CIDRs are known. */
  | { readonly kind: 'need-claims'; readonly within: readonly Cidr[] }
  /** Plan again when these blocks, as far as they exist, are known. */
  | { readonly kind: 'need-blocks'; readonly cidrs: readonly Cidr[] }
  /** Request the pre-allocated address from the agent of the block's owner, then plan again. */
  | { readonly kind: 'need-request'; readonly block: Stored<IpBlock>; readonly ordinal: number };

/** A block as the plan has changed it so far. */
class Draft extends BlockDraft {
  readonly stored: Stored<IpBlock> | undefined;
  readonly pool: Pool | undefined;

  constructor(block: IpBlock, { stored, pool }: { readonly stored?: Stored<IpBlock>; readonly pool?: Pool }) {
    super(block);
    this.stored = stored;
    this.pool = pool;
  }
}

/**
 * Decides every wanted address at once: one the attachment holds already; the one asked for; else the next in the queue of
 * a block the node owns; else of a new block; else of an empty block taken over; else, unless strict, a borrowed one.
 * @throws store/locked, ipam/exhausted, ipam/address-taken, ipam/address-not-in-pool, ipam/strict-affinity
 */
export function planAssign(known: Knowledge, node: NodeName, wants: readonly Want[]): AssignPlan {
  const drafts = new Map<string, Draft>();
  for (const stored of [...known.view.owned, ...known.view.borrowed, ...known.others]) {
    drafts.set(formatCidr(stored.value.cidr), new Draft(stored.value, { stored }));
  }
  const planning: Planning = { known, node, wants, drafts, reserved: reservedCidrs(known.view.reservations) };
  const leases: Lease[] = [];
  for (const want of wants) {
    const step = heldLease(planning, want) ?? planNew(planning, want);
    if ('kind' in step) return step;
    leases.push(step);
  }
  return { kind: 'ready', leases, changes: [...drafts.values()].flatMap((draft) => changesOf(draft, node)) };
}

interface Planning {
  readonly known: Knowledge;
  readonly node: NodeName;
  readonly wants: readonly Want[];
  readonly drafts: Map<string, Draft>;
  readonly reserved: readonly Cidr[];
}

type Step = Lease | Exclude<AssignPlan, { kind: 'ready' }>;

function heldLease({ drafts, known }: Planning, want: Want): Lease | undefined {
  for (const { block } of drafts.values()) {
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

function planNew(planning: Planning, want: Want): Step {
  if (planning.known.view.isLocked) throw locked('assign an address', planning.node);
  return want.address === undefined ? planNext(planning, want) : planExact(planning, want, want.address);
}

function planExact(planning: Planning, want: Want, address: Address): Step {
  const { known, node, drafts } = planning;
  const pool = poolAround(known.pools, address);
  if (pool === undefined || pool.closed !== undefined) {
    throw notInPool({ address, askedBy: want.askedBy }, pool, known.pools);
  }
  const cidr = cidrAround(address, pool.stored.value.spec.blockSize);
  const draft = [...drafts.values()].find(({ block }) => cidrContains(block.cidr, address));
  if (draft === undefined) {
    if (!known.looked.has(formatCidr(cidr))) return { kind: 'need-blocks', cidrs: [cidr] };
    if (known.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(planning) };
    // A block of another size, from a pool that was there before.
    const around = unread(
      planning,
      known.claims.filter((claim) => cidrContains(claim.cidr, address)),
    );
    if (around.length > 0) return { kind: 'need-blocks', cidrs: around };
    assertClaimable(planning, { want, address, cidr, claims: known.claims });
    return take(newDraft(planning, cidr, pool), ordinalOf(cidr, address), { want, pool });
  }
  const holder = holderOf(draft.block, address);
  if (holder !== undefined && !isPredecessor(holder, want.allocation)) {
    throw addressTaken({ address, askedBy: want.askedBy }, holder);
  }
  if (known.view.config.strictAffinity && draft.block.node !== node) throw strictAffinity(address, draft.block);
  const ordinal = ordinalOf(draft.block.cidr, address);
  if (draft.stored !== undefined && draft.block.preallocated.has(ordinal)) {
    return { kind: 'need-request', block: draft.stored, ordinal };
  }
  return take(draft, ordinal, { want, pool });
}

/**
 * An earlier sandbox of the same pod on the same node: a pod that is replaced under its name gets its address back at
 * once, and the late release of the earlier one, which names its own allocation, frees nothing.
 */
function isPredecessor(holder: Allocation, successor: Allocation): boolean {
  const isSamePod =
    holder.pod !== undefined && holder.pod === successor.pod && holder.namespace === successor.namespace;
  return isSamePod && holder.node === successor.node && holder.ifName === successor.ifName;
}

function planNext(planning: Planning, want: Want): Step {
  const { known, node, drafts } = planning;
  const { eligible } = want.selection;
  const own = [...drafts.values()].filter(({ block }) => block.node === node).sort(byCidr);
  for (const pool of eligible) {
    for (const draft of own.filter(({ block }) => cidrContains(pool.cidr, block.cidr))) {
      const [ordinal] = freeOrdinals(draft.block, planning.reserved);
      if (ordinal !== undefined) return take(draft, ordinal, { want, pool });
    }
  }
  if (eligible.length === 0) throw exhausted({ want, node, known, atLimit: false });
  if (known.claims === undefined) return { kind: 'need-claims', within: claimsNeeded(planning) };
  // Another process of this node claimed a block since the view was read: use it instead of claiming one more.
  const fresh = unread(
    planning,
    known.claims.filter((claim) => claim.node === node),
  );
  if (fresh.length > 0) return { kind: 'need-blocks', cidrs: fresh };

  const atLimit = isAtLimit(planning, want.family);
  return (
    (atLimit ? undefined : planNewBlock(planning, want, known.claims)) ??
    planOthers(planning, want, { atLimit, claims: known.claims })
  );
}

/** Of all wants: what is known of claims must hold for the next want too. */
function claimsNeeded({ wants, known }: Planning): readonly Cidr[] {
  return wants.flatMap(({ selection, address }) => {
    if (address === undefined) return selection.eligible.map(({ cidr }) => cidr);
    const pool = poolAround(known.pools, address);
    return pool === undefined ? [] : [cidrAround(address, pool.stored.value.spec.blockSize)];
  });
}

/** Whether the node may claim no more blocks of the family. */
function isAtLimit({ known, node, drafts }: Planning, family: Family): boolean {
  const limit = known.view.config.maxBlocksPerNode;
  const own = [...drafts.values()].filter(({ block }) => block.node === node && block.cidr.base.family === family);
  return limit > 0 && own.length >= limit;
}

/** A new block for an address that is asked for needs the same as any other. @throws ipam/exhausted */
function assertClaimable(
  planning: Planning,
  {
    want: { family, askedBy },
    address,
    cidr,
    claims,
  }: { readonly want: Want; readonly address: Address; readonly cidr: Cidr; readonly claims: readonly Claim[] },
): void {
  const { node, known } = planning;
  const asked = { address, askedBy };
  // One of just this block came about since the blocks were read: then the write is refused, and all is read again.
  const inside = claims.find((claim) => cidrsOverlap(claim.cidr, cidr) && !sameCidr(claim.cidr, cidr));
  if (inside !== undefined) throw blockOverlaps(asked, cidr, inside);
  if (isAtLimit(planning, family)) throw blockLimit(asked, { cidr, node, limit: known.view.config.maxBlocksPerNode });
}

function planNewBlock(planning: Planning, want: Want, claims: readonly Claim[]): Step | undefined {
  const isClaimed = overlapsOneOf([
    ...claims.map(({ cidr }) => cidr),
    ...[...planning.drafts.values()].map(({ block }) => block.cidr),
  ]);
  for (const pool of want.selection.eligible) {
    for (const cidr of freeCidrs(pool, { isClaimed, reserved: planning.reserved, node: planning.node })) {
      const [ordinal] = freeOrdinals(emptyBlock(cidr, planning.node), planning.reserved);
      if (ordinal !== undefined) return take(newDraft(planning, cidr, pool), ordinal, { want, pool });
    }
  }
  return undefined;
}

/** Everything is claimed: take over an empty block, or borrow from the block with the most room. */
function planOthers(
  planning: Planning,
  want: Want,
  { atLimit, claims }: { atLimit: boolean; claims: readonly Claim[] },
): Step {
  const { known, node } = planning;
  const { eligible } = want.selection;
  const candidates = eligible.flatMap((pool) => roomElsewhere(planning, pool));
  const empty = atLimit ? undefined : candidates.find(({ draft }) => isIdle(draft.block));
  const chosen = empty ?? (known.view.config.strictAffinity ? undefined : candidates[0]);
  if (chosen !== undefined) {
    if (chosen === empty) takeOver(chosen.draft, node);
    return take(chosen.draft, chosen.ordinal, { want, pool: chosen.pool });
  }
  const foreign = claims.filter(({ cidr }) => eligible.some((pool) => cidrContains(pool.cidr, cidr)));
  const unseen = unread(planning, foreign).slice(0, BLOCKS_PER_READ);
  if (unseen.length > 0) return { kind: 'need-blocks', cidrs: unseen };
  const aside = known.view.config.strictAffinity ? undefined : preallocatedElsewhere(planning, eligible);
  if (aside !== undefined) return aside;
  throw exhausted({ want, node, known, atLimit });
}

/** Returns a pre-allocated address to request, in the block of another node that has most of them. */
function preallocatedElsewhere({ drafts, node }: Planning, eligible: readonly Pool[]): Step | undefined {
  const [richest] = [...drafts.values()]
    .filter(({ block }) => block.node !== node && eligible.some((pool) => cidrContains(pool.cidr, block.cidr)))
    .filter(({ block }) => block.preallocated.size > 0)
    .sort((a, b) => b.block.preallocated.size - a.block.preallocated.size);
  const [ordinal] = richest?.block.preallocated.keys() ?? [];
  if (richest?.stored === undefined || ordinal === undefined) return undefined;
  return { kind: 'need-request', block: richest.stored, ordinal };
}

function unread({ drafts, known }: Planning, claims: readonly Claim[]): Cidr[] {
  return claims
    .map(({ cidr }) => cidr)
    .filter((cidr) => !known.looked.has(formatCidr(cidr)) && !drafts.has(formatCidr(cidr)));
}

/** Blocks of the pool that others own and that have a free address, the roomiest first. */
function roomElsewhere(
  { drafts, node, reserved }: Planning,
  pool: Pool,
): { draft: Draft; pool: Pool; ordinal: number }[] {
  return [...drafts.values()]
    .filter(({ block }) => block.node !== node && cidrContains(pool.cidr, block.cidr))
    .flatMap((draft) => {
      const [ordinal] = freeOrdinals(draft.block, reserved);
      return ordinal === undefined ? [] : [{ draft, pool, ordinal }];
    })
    .sort(({ draft: a }, { draft: b }) => {
      const room = b.block.queue.length - a.block.queue.length;
      return room === 0 ? byCidr(a, b) : room;
    });
}

function newDraft({ drafts, node }: Planning, cidr: Cidr, pool: Pool): Draft {
  const draft = new Draft(emptyBlock(cidr, node), { pool });
  drafts.set(formatCidr(cidr), draft);
  return draft;
}

function take(draft: Draft, ordinal: number, { want, pool }: { want: Want; pool: Pool }): Lease {
  const allocation = { ...want.allocation, considered: consideredFor(want.selection, pool) };
  const { cidr: block, slots } = draft.block;
  draft.apply([{ kind: 'take', block, ordinal, from: slots.get(ordinal)?.id, allocation }]);
  return { address: addressAt(block, ordinal), allocation, block, pool: pool.name, isNew: true };
}

function takeOver(draft: Draft, node: NodeName): void {
  const { cidr: block, node: from } = draft.block;
  draft.apply([{ kind: 'change-owner', block, from, to: node }]);
}

function changesOf(draft: Draft, node: NodeName): Change[] {
  const { stored, pool, operations } = draft;
  if (stored !== undefined)
    return operations.length === 0 ? [] : [{ kind: 'update-block', before: stored, operations }];
  const block = emptyBlock(draft.block.cidr, node);
  return pool === undefined ? [] : [{ kind: 'create-block', block, pool: pool.stored, operations }];
}

function byCidr(a: Draft, b: Draft): number {
  return compareCidrs(a.block.cidr, b.block.cidr);
}
