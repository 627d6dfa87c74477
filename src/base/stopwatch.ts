import type { Clock } from './clock.ts';

/** A stretch of time in which a call did or awaited one thing; times are milliseconds since the watch was made. */
export interface Phase {
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
  readonly isFailed: boolean;
}

/**
 * Divides the time of a call into named phases, so that none of it is left without a name: what is awaited has the name
 * given to `time`, several at once if need be, and whatever lies between belongs to the step the caller's own work is in.
 */
export class Stopwatch {
  readonly #clock: Clock;
  readonly #zeroMs: number;
  readonly #phases: Phase[] = [];
  readonly #failures = new Map<unknown, string>();
  /** How many phases are awaited now. */
  #awaited = 0;
  #step: string;
  /** When the own work went on; counts only while nothing is awaited. */
  #stepStartMs = 0;

  constructor(clock: Clock, step: string) {
    this.#clock = clock;
    this.#zeroMs = clock.monotonic();
    this.#step = step;
  }

  /** Milliseconds since the watch was made. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#zeroMs;
  }

  /** From here on, the caller's own work is another step. */
  enter(step: string): void {
    const nowMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(nowMs);
    this.#step = step;
    this.#stepStartMs = nowMs;
  }

  /** Awaits `work` as the phase of that name. */
  async time<T>(name: string, work: () => Promise<T>): Promise<T> {
    const startMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(startMs);
    this.#awaited += 1;
    let isFailed = false;
    try {
      return await work();
    } catch (cause) {
      isFailed = true;
      if (!this.#failures.has(cause)) this.#failures.set(cause, name);
      throw cause;
    } finally {
      const endMs = this.elapsedMs;
      this.#phases.push({ name, startMs, durationMs: endMs - startMs, isFailed });
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#stepStartMs = endMs;
    }
  }

  /** The phase that first threw `cause`. */
  phaseOf(cause: unknown): string | undefined {
    return this.#failures.get(cause);
  }

  /** Ends the own work's step, and gives everything in the order of its start, the longer first. */
  stop(): { readonly totalMs: number; readonly phases: readonly Phase[] } {
    const totalMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(totalMs);
    this.#stepStartMs = totalMs;
    return { totalMs, phases: this.#phases.toSorted(byStart) };
  }

  /** `<phase>Ms` for each phase that has ended, and `totalMs`. */
  facts(): Record<string, number> {
    const sums = Object.entries(sumByName(this.#phases)).map(([name, ms]) => [`${name}Ms`, rounded(ms)] as const);
    return { ...Object.fromEntries(sums), totalMs: rounded(this.elapsedMs) };
  }

  #endStep(nowMs: number): void {
    const durationMs = nowMs - this.#stepStartMs;
    if (durationMs > 0)
      this.#phases.push({ name: this.#step, startMs: this.#stepStartMs, durationMs, isFailed: false });
  }
}

/** Milliseconds by name, in the order in which names first occur. */
export function sumByName(phases: readonly Phase[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { name, durationMs } of phases) sums[name] = (sums[name] ?? 0) + durationMs;
  return sums;
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function byStart(a: Phase, b: Phase): number {
  return a.startMs === b.startMs ? b.durationMs - a.durationMs : a.startMs - b.startMs;
}
