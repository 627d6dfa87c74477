import { setImmediate as nextTurn } from 'node:timers/promises';
import { getOrInsert } from '../../base/get-or-insert.ts';
import type { Pool } from '../choose-pools.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { IpamConfigurationSpec } from '../../model/ipam-configuration.ts';
import type { NodeName } from '../../model/names.ts';
import { type Cidr, cidrContains } from '../../net/cidr.ts';
import { borrowersOf } from '../../datastore/borrowers.ts';
import { bestOf, countBlock, type CountedBlock, countNewBlock, type Permission, takeFrom } from './forecast-blocks.ts';
import { FreePlaces } from './free-places.ts';
import { ForeignBlocks } from './foreign-blocks.ts';

/** A cluster of one address family, and the nodes that ask for addresses, one after the other. */
export interface ForecastQuestion {
  /** Every pool of the family. */
  readonly pools: readonly Pool[];
  readonly reserved: readonly Cidr[];
  readonly config: IpamConfigurationSpec;
  /** Blocks that exist already. */
  readonly blocks: readonly IpBlock[];
  readonly nodes: readonly ForecastNode[];
}

export interface ForecastNode {
  readonly name: NodeName;
  /** Pools its pods may use, in order. Nodes with the same ones share the list. */
  readonly pools: readonly Pool[];
  /** Number of addresses that it still asks for. */
  readonly wants: number;
}

/** The first time that something happens: to which node in the order, at which of its addresses, both from 1. */
export interface Event {
  readonly node: string;
  readonly nodeNumber: number;
  readonly addressNumber: number;
}

export interface Forecast {
  /** Blocks of each pool, by its name. */
  readonly blocksUsed: ReadonlyMap<string, number>;
  readonly placed: number;
  readonly borrowed: number;
  readonly failed: number;
  readonly firstBorrowing: Event | undefined;
  readonly firstFailure: Event | undefined;
}

/**
 * Computes what the planner of ADD does when the nodes ask for their addresses: blocks are claimed by the planner's own
 * order; within a block only the count matters, so that slots are counted instead of planned. The event loop turns between
 * the nodes, so that the signal can abort it.
 */
export async function forecast(question: ForecastQuestion, signal: AbortSignal): Promise<Forecast> {
  const { nodes } = question;
  const cluster = new CountedCluster(question);
  let [placed, borrowed, failed] = [0, 0, 0];
  let firstBorrowing: Event | undefined;
  let firstFailure: Event | undefined;
  for (const [index, node] of nodes.entries()) {
    await nextTurn();
    signal.throwIfAborted();
    const served = cluster.serve(node);
    const event = (addressNumber: number): Event => ({ node: node.name, nodeNumber: index + 1, addressNumber });
    placed += served.placed;
    borrowed += served.borrowed;
    failed += node.wants - served.placed;
    if (served.firstBorrowed !== undefined) firstBorrowing ??= event(served.firstBorrowed);
    if (served.placed < node.wants) firstFailure ??= event(served.placed + 1);
  }
  return { blocksUsed: cluster.blocksUsed(), placed, borrowed, failed, firstBorrowing, firstFailure };
}

interface Served {
  placed: number;
  borrowed: number;
  firstBorrowed: number | undefined;
}

class CountedCluster {
  readonly #question: ForecastQuestion;
  readonly #blocks: CountedBlock[] = [];
  readonly #owned = new Map<string, Set<CountedBlock>>();
  readonly #borrowedBy = new Map<string, Set<CountedBlock>>();
  readonly #free: ReadonlyMap<Pool, FreePlaces>;
  readonly #foreign = new Map<readonly Pool[], ForeignBlocks>();

  constructor(question: ForecastQuestion) {
    this.#question = question;
    const { pools, blocks, reserved } = question;
    this.#free = new Map(pools.map((pool) => [pool, new FreePlaces(pool)]));
    for (const block of blocks) {
      const pool = pools.find(({ cidr }) => cidrContains(cidr, block.cidr));
      if (pool === undefined) continue;
      const counted = countBlock(block, pool, reserved);
      this.#enter(counted);
      for (const node of borrowersOf(block).keys()) setOf(this.#borrowedBy, node).add(counted);
    }
  }

  blocksUsed(): ReadonlyMap<string, number> {
    const used = new Map(this.#question.pools.map(({ name }) => [name, 0]));
    for (const { pool } of this.#blocks) used.set(pool.name, (used.get(pool.name) ?? 0) + 1);
    return used;
  }

  serve({ name, pools, wants }: ForecastNode): Served {
    const served: Served = { placed: 0, borrowed: 0, firstBorrowed: undefined };
    const own = setOf(this.#owned, name);
    const usable = [...own].filter(({ pool }) => pools.includes(pool));
    for (const block of usable) served.placed += fill(block, wants - served.placed);
    const unclaimed = this.#unclaimed(name, pools);
    while (served.placed < wants) {
      const isAtLimit = this.#isAtLimit(own);
      const claimed = isAtLimit ? undefined : unclaimed.next().value;
      if (claimed !== undefined) {
        this.#enter(claimed);
        served.placed += fill(claimed, wants - served.placed);
        continue;
      }
      const mayBorrow = !this.#question.config.strictAffinity;
      const chosen = this.#fromOthers({ name, pools }, { mayTakeOver: !isAtLimit, mayBorrow });
      if (chosen === undefined) break;
      if (chosen.isIdle && !isAtLimit) {
        this.#takeOver(chosen, name);
        served.placed += fill(chosen, wants - served.placed);
      } else {
        takeFrom(chosen, 1);
        setOf(this.#borrowedBy, name).add(chosen);
        served.placed += 1;
        served.borrowed += 1;
        served.firstBorrowed ??= served.placed;
      }
    }
    return served;
  }

  #isAtLimit(own: ReadonlySet<CountedBlock>): boolean {
    const { maxBlocksPerNode } = this.#question.config;
    return maxBlocksPerNode > 0 && own.size >= maxBlocksPerNode;
  }

  *#unclaimed(node: NodeName, pools: readonly Pool[]): Generator<CountedBlock, undefined> {
    const { reserved } = this.#question;
    for (const pool of pools) {
      const free = this.#free.get(pool);
      for (const cidr of free?.inOrderOf(node) ?? []) {
        const block = countNewBlock(cidr, { pool, node, reserved });
        if (block.room > 0) yield block;
        // A fully reserved block is never claimed.
        else free?.take(cidr);
      }
    }
    return undefined;
  }

  /** Blocks the node borrows from already come first: the planner knows them without another look. */
  #fromOthers({ name, pools }: Pick<ForecastNode, 'name' | 'pools'>, permission: Permission): CountedBlock | undefined {
    const borrowed = setOf(this.#borrowedBy, name);
    const usable = [...borrowed].filter(({ pool, node }) => pools.includes(pool) && node !== name);
    const foreign = getOrInsert(this.#foreign, pools, () => new ForeignBlocks(pools, this.#blocks));
    return (
      bestOf(usable, pools, permission) ??
      foreign.choose(new Set([...setOf(this.#owned, name), ...borrowed]), permission)
    );
  }

  #takeOver(block: CountedBlock, name: NodeName): void {
    if (block.node !== undefined) setOf(this.#owned, block.node).delete(block);
    block.node = name;
    setOf(this.#owned, name).add(block);
  }

  #enter(block: CountedBlock): void {
    const { pool, cidr, node } = block;
    this.#blocks.push(block);
    if (node !== undefined) setOf(this.#owned, node).add(block);
    this.#free.get(pool)?.take(cidr);
    for (const foreign of this.#foreign.values()) foreign.add(block);
  }
}

/** Takes as many as there are, up to `count`. */
function fill(block: CountedBlock, count: number): number {
  const taken = Math.min(block.room, count);
  if (taken > 0) takeFrom(block, taken);
  return taken;
}

function setOf(map: Map<string, Set<CountedBlock>>, key: string): Set<CountedBlock> {
  return getOrInsert(map, key, () => new Set());
}
