import type { Pool } from '../choose-pools.ts';
import { freeOrdinals } from '../free-ordinals.ts';
import { emptyBlock, type IpBlock, isIdle } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { type Cidr, cidrSize, cidrsOverlap, compareCidrs } from '../../net/cidr.ts';

/** A block in numbers: of its slots only how many there are is kept. */
export interface CountedBlock {
  readonly cidr: Cidr;
  readonly pool: Pool;
  node: NodeName | undefined;
  /** Free addresses that may be handed out. */
  room: number;
  /** All free addresses, by which the planner compares blocks. */
  queued: number;
  isIdle: boolean;
}

export function countBlock(block: IpBlock, pool: Pool, reserved: readonly Cidr[]): CountedBlock {
  const { cidr, node, queue } = block;
  const room = [...freeOrdinals(block, reserved)].length;
  return { cidr, pool, node, room, queued: queue.length, isIdle: isIdle(block) };
}

/** A block that is claimed now. */
export function countNewBlock(
  cidr: Cidr,
  { pool, node, reserved }: { pool: Pool; node: NodeName; reserved: readonly Cidr[] },
): CountedBlock {
  if (reserved.some((range) => cidrsOverlap(range, cidr))) return countBlock(emptyBlock(cidr, node), pool, reserved);
  const size = Number(cidrSize(cidr));
  return { cidr, pool, node, room: size, queued: size, isIdle: true };
}

export function takeFrom(block: CountedBlock, count: number): void {
  block.room -= count;
  block.queued -= count;
  block.isIdle = false;
}

/** Rights of the node to a block of another one. */
export interface Permission {
  readonly mayTakeOver: boolean;
  readonly mayBorrow: boolean;
}

/** Returns the block of another node that the planner chooses: an idle one, else the one of the first pool with most free addresses. */
export function bestOf(
  blocks: Iterable<CountedBlock>,
  pools: readonly Pool[],
  { mayTakeOver, mayBorrow }: Permission,
): CountedBlock | undefined {
  let best: CountedBlock | undefined;
  for (const block of blocks) {
    const isIdle = mayTakeOver && block.isIdle;
    if (block.room === 0 || !(isIdle || mayBorrow)) continue;
    if (best !== undefined && isIdle !== (mayTakeOver && best.isIdle) ? isIdle : comesBefore(block, best, pools))
      best = block;
  }
  return best;
}

function comesBefore(a: CountedBlock, b: CountedBlock | undefined, pools: readonly Pool[]): boolean {
  if (b === undefined) return true;
  if (a.pool !== b.pool) return pools.indexOf(a.pool) < pools.indexOf(b.pool);
  return a.queued === b.queued ? compareCidrs(a.cidr, b.cidr) < 0 : a.queued > b.queued;
}
