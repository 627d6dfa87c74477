import type { Pool } from '../choose-pools.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { cidrContains } from '../../net/cidr.ts';
import { warmPoolTarget } from './plan-warm-pool.ts';

/** The window over which recent pod starts are counted. */
const RATE_WINDOW_MS = 5000;
/** Time for which a pool without pods on the node keeps its pre-allocated addresses after the last pod start. */
const MEMORY_MS = 60_000;

/** Counts the pod starts of this node by pool. */
export class Demand {
  readonly #starts = new Map<string, number[]>();
  readonly #floor: () => number;

  constructor(floor: () => number) {
    this.#floor = floor;
  }

  record(pool: string, nowMs: number): void {
    this.#starts.set(pool, [...this.#recentStarts(pool, nowMs), nowMs]);
  }

  /** Returns the number of recent pod starts with an address of the pool. */
  recent(pool: string, nowMs: number): number {
    return this.#recentStarts(pool, nowMs).length;
  }

  /** Returns a text that changes when the size of a warm pool changes with time or settings. */
  fingerprint(nowMs: number): string {
    const counts = [...this.#starts].map(([pool, starts]) => [
      pool,
      this.recent(pool, nowMs),
      starts.some((at) => nowMs - at < MEMORY_MS),
    ]);
    return JSON.stringify([this.#floor(), counts]);
  }

  /** Returns the sizes of the warm pools by pool name. */
  targets(
    pools: readonly Pool[],
    { own, node, nowMs }: { own: readonly IpBlock[]; node: NodeName; nowMs: number },
  ): ReadonlyMap<string, number> {
    const targets = new Map<string, number>();
    for (const { name, cidr, closed } of pools) {
      const starts = this.#starts.get(name) ?? [];
      const isUsed =
        starts.some((at) => nowMs - at < MEMORY_MS) ||
        own.some((block) => block.node === node && block.slots.size > 0 && cidrContains(cidr, block.cidr));
      if (isUsed && closed === undefined) targets.set(name, warmPoolTarget(this.recent(name, nowMs), this.#floor()));
    }
    return targets;
  }

  #recentStarts(pool: string, nowMs: number): number[] {
    return (this.#starts.get(pool) ?? []).filter((at) => nowMs - at < RATE_WINDOW_MS);
  }
}
