import { firstIndex } from '../../base/first-index.ts';
import type { Pool } from '../choose-pools.ts';
import { BLOCKS_PER_READ } from '../plan-assign.ts';
import { compareCidrs } from '../../net/cidr.ts';
import { bestOf, type CountedBlock, type Permission } from './forecast-blocks.ts';

/** From so many on, sorting is cheaper than moving what stands behind each. */
const MANY = 64;

/** The blocks of some pools, in the order and in the pieces in which the planner looks at those of other nodes. */
export class ForeignBlocks {
  readonly #pools: readonly Pool[];
  /** Ordered by CIDR. */
  readonly #blocks: CountedBlock[] = [];
  /** In no order yet. */
  #fresh: CountedBlock[] = [];
  /** Blocks before this index are full. */
  #firstWithRoom = 0;

  constructor(pools: readonly Pool[], blocks: Iterable<CountedBlock>) {
    this.#pools = pools;
    for (const block of blocks) this.add(block);
  }

  add(block: CountedBlock): void {
    if (this.#pools.includes(block.pool)) this.#fresh.push(block);
  }

  /**
   * The block to take over or borrow from for a node that knows `known` already, its own blocks and those it borrows
   * from; undefined when there is none.
   */
  choose(known: ReadonlySet<CountedBlock>, permission: Permission): CountedBlock | undefined {
    this.#putInOrder();
    while (this.#blocks[this.#firstWithRoom]?.room === 0) this.#firstWithRoom += 1;
    const start = this.#firstWithRoom;
    if (start === this.#blocks.length) return undefined;
    const knownBefore = [...known].filter((block) => this.#pools.includes(block.pool) && this.#indexOf(block) < start);
    let rank = start - knownBefore.length;
    let piece: CountedBlock[] = [];
    for (let index = start; index < this.#blocks.length; index += 1) {
      const block = this.#blocks[index];
      if (block === undefined || known.has(block)) continue;
      piece.push(block);
      rank += 1;
      if (rank % BLOCKS_PER_READ > 0) continue;
      const best = bestOf(piece, this.#pools, permission);
      if (best !== undefined) return best;
      piece = [];
    }
    return bestOf(piece, this.#pools, permission);
  }

  /** A few are put in their places; many are sorted together with all. */
  #putInOrder(): void {
    const fresh = this.#fresh;
    this.#fresh = [];
    if (fresh.length > MANY) {
      for (const block of fresh) this.#blocks.push(block);
      this.#blocks.sort((a, b) => compareCidrs(a.cidr, b.cidr));
      this.#firstWithRoom = 0;
      return;
    }
    for (const block of fresh) {
      const index = this.#indexOf(block);
      this.#blocks.splice(index, 0, block);
      if (index < this.#firstWithRoom) this.#firstWithRoom = block.room > 0 ? index : this.#firstWithRoom + 1;
    }
  }

  /** Returns the index where the block stands, or would. */
  #indexOf({ cidr }: CountedBlock): number {
    return firstIndex(this.#blocks.length, (index) => {
      const there = this.#blocks[index];
      return there !== undefined && compareCidrs(there.cidr, cidr) < 0;
    });
  }
}
