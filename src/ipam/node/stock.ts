import { answerRequests, giveBack, type IpBlock, setAside } from '../../model/ip-block.ts';
import { type Cidr, compareCidrs, formatCidr } from '../../net/cidr.ts';
import { type Pool, poolAround } from '../choose-pools.ts';
import { freeOrdinals, isReserved } from '../free-ordinals.ts';
import { stockOf } from './own-stock.ts';

/**
 * Addresses kept ready for a pool that pods have come from, as far as the blocks of the node have them: so many pods
 * start without the datastore. Other nodes get them for the asking.
 */
const STOCK_CEILING = 256;

/** How many addresses shall be in stock when so many pods have come lately. */
export function stockTarget(recent: number, floor: number): number {
  return Math.min(Math.max(STOCK_CEILING, floor), floor + recent);
}

export interface StockPlan {
  /** Stock that may be handed out, or given back. */
  readonly owns: (stockId: string) => boolean;
  /** Own blocks of the node, by CIDR. */
  readonly blocks: ReadonlyMap<string, IpBlock>;
  readonly pools: readonly Pool[];
  readonly reserved: readonly Cidr[];
  /** Wanted stock by pool name; pools that are missing shall have none. */
  readonly targets: ReadonlyMap<string, number>;
  readonly newId: () => string;
  /** Pools whose addresses others need more. */
  readonly yielding: ReadonlySet<string>;
  /** Whether the block is written anyway. */
  readonly isWritten: (key: string) => boolean;
  /** Whether a call under way is about to take the free address. */
  readonly isSpokenFor: (block: string, ordinal: number) => boolean;
  /** Stock that nobody may hand out any more. */
  readonly isOrphaned: (stockId: string) => boolean;
}

/**
 * The blocks with the stock of every pool brought to its target: taken from the heads of the queues, given back to
 * them when there is more than twice as much, or when an address has been reserved meanwhile. A block is written for
 * the stock alone only when less than half of what can be had is left. Only changed blocks are returned.
 */
export function planStock(plan: StockPlan): ReadonlyMap<string, IpBlock> {
  const changed = new Map<string, IpBlock>();
  const byPool = Map.groupBy(plan.blocks.values(), ({ cidr }) => poolAround(plan.pools, cidr));
  const inPool = (pool: Pool | undefined): IpBlock[] =>
    (byPool.get(pool) ?? [])
      .map((block) => {
        // Most blocks of a node have none.
        if (block.stock.size === 0) return block;
        return withoutReserved(withoutOrphaned(answerRequests(block, plan.owns), plan), plan);
      })
      .sort((a, b) => compareCidrs(a.cidr, b.cidr));
  for (const pool of [...plan.pools, undefined]) {
    const blocks = inPool(pool);
    const target = pool === undefined ? 0 : (plan.targets.get(pool.name) ?? 0);
    const stock = blocks.reduce((sum, block) => sum + stockOf(block, plan.owns).length, 0);
    const mayGrow = pool !== undefined && !plan.yielding.has(pool.name);
    const result =
      stock > target * 2
        ? shrink(blocks, stock - target, plan)
        : mayGrow
          ? grow(blocks, { stock, target }, plan)
          : blocks;
    for (const block of result) changed.set(formatCidr(block.cidr), block);
  }
  return new Map([...changed].filter(([key, block]) => plan.blocks.get(key) !== block));
}

/** What waits to be published as handed out is no orphan. */
function withoutOrphaned(block: IpBlock, { isOrphaned, isSpokenFor }: StockPlan): IpBlock {
  const key = formatCidr(block.cidr);
  const ids = new Set([...block.stock].flatMap(([at, id]) => (isOrphaned(id) && !isSpokenFor(key, at) ? id : [])));
  return giveBack(block, (id) => ids.has(id));
}

function withoutReserved(block: IpBlock, { reserved, owns }: StockPlan): IpBlock {
  const ids = new Set(
    stockOf(block, owns)
      .filter((ordinal) => isReserved(block, ordinal, reserved))
      .map((ordinal) => block.stock.get(ordinal)),
  );
  return ids.size === 0 ? block : giveBack(block, (id) => ids.has(id));
}

function grow(
  blocks: readonly IpBlock[],
  { stock, target }: { readonly stock: number; readonly target: number },
  { reserved, newId, isWritten, isSpokenFor }: StockPlan,
): IpBlock[] {
  let left = target - stock;
  if (left <= 0) return [...blocks];
  const freeIn = blocks.map((block) => {
    const key = formatCidr(block.cidr);
    const free: number[] = [];
    for (const ordinal of freeOrdinals(block, reserved)) {
      if (free.length === left) break;
      if (!isSpokenFor(key, ordinal)) free.push(ordinal);
    }
    left -= free.length;
    return free;
  });
  const reachable = target - left;
  return blocks.map((block, index) => {
    const free = freeIn[index] ?? [];
    const isWorth = isWritten(formatCidr(block.cidr)) || stock * 2 < reachable;
    return free.length === 0 || !isWorth ? block : setAside(block, new Map(free.map((ordinal) => [ordinal, newId()])));
  });
}

function shrink(blocks: readonly IpBlock[], surplus: number, { owns }: StockPlan): IpBlock[] {
  let left = surplus;
  return blocks
    .toReversed()
    .map((block) => {
      const ids = new Set(
        stockOf(block, owns)
          .toReversed()
          .slice(0, Math.max(0, left))
          .map((at) => block.stock.get(at)),
      );
      left -= ids.size;
      return ids.size === 0 ? block : giveBack(block, (id) => ids.has(id));
    })
    .toReversed();
}
