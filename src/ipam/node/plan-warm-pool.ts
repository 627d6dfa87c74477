import type { CoolDown } from '../../model/cool-down.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import { BlockDraft, reclaimOperations, type SlotOperation } from '../../model/slot-operation.ts';
import { type Cidr, compareCidrs, formatCidr } from '../../net/cidr.ts';
import { type Pool, poolAround } from '../choose-pools.ts';
import { isReserved, readyOrdinals } from '../free-ordinals.ts';
import { ownedOrdinals } from './preallocated.ts';

/**
 * The most addresses that are pre-allocated per pool, for pods that start without the datastore. Other nodes get them on
 * request.
 */
const WARM_POOL_CEILING = 256;

/** Returns how many addresses to pre-allocate after so many recent pod starts. */
export function warmPoolTarget(recent: number, floor: number): number {
  return Math.min(Math.max(WARM_POOL_CEILING, floor), floor + recent);
}

export interface WarmPoolPlan {
  /** Reports whether a pre-allocated address may be assigned or reclaimed by this run. */
  readonly owns: (preallocationId: string) => boolean;
  /** Own blocks of the node, by CIDR. */
  readonly blocks: ReadonlyMap<string, IpBlock>;
  readonly pools: readonly Pool[];
  readonly reserved: readonly Cidr[];
  /** An address that cools down is not pre-allocated: the next pod would get it. */
  readonly coolDown: CoolDown;
  /** The size of the warm pool by pool name; none for a pool that is missing. */
  readonly targets: ReadonlyMap<string, number>;
  readonly newId: () => string;
  /** Pools whose addresses other nodes need. */
  readonly yielding: ReadonlySet<string>;
  /** Reports whether the block is written anyway. */
  readonly isWritten: (key: string) => boolean;
  /** Reports whether a pending write takes the free address. */
  readonly isPending: (block: string, ordinal: number) => boolean;
  /** Reports whether no run can assign the pre-allocated address any more. */
  readonly isOrphaned: (preallocationId: string) => boolean;
}

/**
 * Plans what brings the warm pool of every pool to its target: pre-allocates addresses from the heads of the queues, and
 * reclaims them when there are more than twice as many, or when an address was reserved meanwhile. Fills a pool with a
 * write of its own only when less than half of the reachable target is left. Returns only blocks that change.
 */
export function planWarmPool(plan: WarmPoolPlan): ReadonlyMap<string, BlockDraft> {
  const drafts = new Map<string, BlockDraft>();
  const open = [...plan.blocks.values()].filter(hasUnassigned);
  const byPool = Map.groupBy(open, ({ cidr }) => poolAround(plan.pools, cidr));
  for (const pool of [...plan.pools, undefined]) {
    const inPool = (byPool.get(pool) ?? []).toSorted((a, b) => compareCidrs(a.cidr, b.cidr)).map(draftOf(plan));
    for (const draft of inPool) drafts.set(formatCidr(draft.block.cidr), draft);
    const target = pool === undefined ? 0 : (plan.targets.get(pool.name) ?? 0);
    const ready = inPool.reduce((sum, { block }) => sum + ownedOrdinals(block, plan.owns).length, 0);
    const mayGrow = pool !== undefined && !plan.yielding.has(pool.name);
    if (ready > target * 2) shrink(inPool, ready - target, plan);
    else if (mayGrow) grow(inPool, { ready, target }, plan);
  }
  return new Map([...drafts].filter(([, { operations }]) => operations.length > 0));
}

/** Reports whether a warm pool may change the block: of a full one it neither takes an address nor returns one. */
function hasUnassigned({ queue, preallocated, requested }: IpBlock): boolean {
  return queue.length > 0 || preallocated.size > 0 || requested.size > 0;
}

/** Returns a function that drafts a block without the addresses that must be reclaimed. */
function draftOf(plan: WarmPoolPlan): (block: IpBlock) => BlockDraft {
  return (block) => {
    const draft = new BlockDraft(block);
    if (block.preallocated.size === 0 && block.requested.size === 0) return draft;
    draft.apply(answers(draft.block, plan));
    draft.apply(reclaimOperations(draft.block, orphanedIn(draft.block, plan)));
    draft.apply(reclaimOperations(draft.block, reservedIn(draft.block, plan)));
    return draft;
  };
}

/** Returns what answers every request for an address of the block. */
function answers({ cidr: block, preallocated, requested }: IpBlock, { owns }: WarmPoolPlan): SlotOperation[] {
  return [...requested].map((ordinal) => {
    const id = preallocated.get(ordinal);
    return id !== undefined && owns(id)
      ? { kind: 'reclaim', block, ordinal, id }
      : { kind: 'drop-request', block, ordinal };
  });
}

/** Selects the orphaned ids of the block, except those that a pending write assigns. */
function orphanedIn(block: IpBlock, { isOrphaned, isPending }: WarmPoolPlan): (id: string) => boolean {
  const key = formatCidr(block.cidr);
  const ids = new Set([...block.preallocated].flatMap(([at, id]) => (isOrphaned(id) && !isPending(key, at) ? id : [])));
  return (id) => ids.has(id);
}

function reservedIn(block: IpBlock, { reserved, owns }: WarmPoolPlan): (id: string) => boolean {
  const ids = new Set(
    ownedOrdinals(block, owns)
      .filter((ordinal) => isReserved(block, ordinal, reserved))
      .map((ordinal) => block.preallocated.get(ordinal)),
  );
  return (id) => ids.has(id);
}

function grow(
  drafts: readonly BlockDraft[],
  { ready, target }: { readonly ready: number; readonly target: number },
  { reserved, coolDown, newId, isWritten, isPending }: WarmPoolPlan,
): void {
  let left = target - ready;
  if (left <= 0) return;
  const freeIn = drafts.map(({ block }) => {
    const key = formatCidr(block.cidr);
    const free: number[] = [];
    for (const ordinal of readyOrdinals(block, reserved, coolDown)) {
      if (free.length === left) break;
      if (!isPending(key, ordinal)) free.push(ordinal);
    }
    left -= free.length;
    return free;
  });
  const reachable = target - left;
  for (const [index, draft] of drafts.entries()) {
    const { cidr: block } = draft.block;
    const isWorth = isWritten(formatCidr(block)) || ready * 2 < reachable;
    const free = isWorth ? (freeIn[index] ?? []) : [];
    draft.apply(free.map((ordinal) => ({ kind: 'preallocate', block, ordinal, id: newId() })));
  }
}

function shrink(drafts: readonly BlockDraft[], surplus: number, { owns }: WarmPoolPlan): void {
  let left = surplus;
  for (const draft of drafts.toReversed()) {
    const { block } = draft;
    const ids = new Set(
      ownedOrdinals(block, owns)
        .toReversed()
        .slice(0, Math.max(0, left))
        .map((at) => block.preallocated.get(at)),
    );
    left -= ids.size;
    draft.apply(reclaimOperations(block, (id) => ids.has(id)));
  }
}
