const DAY_MS = 86_400_000;
/** Samples older than this say nothing about tomorrow. */
const WINDOW_MS = DAY_MS;
/** Shortest time from which a growth is concluded: a rollout of a minute is no trend. */
const LEAST_MS = DAY_MS / 24;
/** One sample is kept for this time, the highest. */
const SAMPLE_MS = DAY_MS / 96;

interface Sample {
  readonly sinceMs: number;
  held: number;
}

/** Remembers how many addresses each pool had in use during the last day. */
export class PoolGrowth {
  readonly #samples = new Map<string, Sample[]>();

  /** Takes the counts of one moment, on the monotonic clock. Pools that are missing are forgotten. */
  observe(held: ReadonlyMap<string, number>, nowMs: number): void {
    for (const pool of this.#samples.keys()) if (!held.has(pool)) this.#samples.delete(pool);
    for (const [pool, count] of held) {
      const samples = (this.#samples.get(pool) ?? []).filter(({ sinceMs }) => nowMs - sinceMs <= WINDOW_MS);
      this.#samples.set(pool, samples);
      const last = samples.at(-1);
      if (last === undefined || nowMs - last.sinceMs >= SAMPLE_MS) samples.push({ sinceMs: nowMs, held: count });
      else last.held = Math.max(last.held, count);
    }
  }

  /**
   * Returns how many addresses more the pool will have in use after a day, by the straight line that is nearest to the samples.
   * Negative while the use decreases; undefined before it was observed for an hour.
   */
  perDay(pool: string): number | undefined {
    const samples = this.#samples.get(pool) ?? [];
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined || last.sinceMs - first.sinceMs < LEAST_MS) return undefined;
    const mean = (of: (sample: Sample) => number): number =>
      samples.reduce((sum, each) => sum + of(each), 0) / samples.length;
    const [meanMs, meanHeld] = [mean(({ sinceMs }) => sinceMs), mean(({ held }) => held)];
    const spread = samples.reduce((sum, { sinceMs }) => sum + (sinceMs - meanMs) ** 2, 0);
    const common = samples.reduce((sum, { sinceMs, held }) => sum + (sinceMs - meanMs) * (held - meanHeld), 0);
    return (common / spread) * DAY_MS;
  }
}
