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

  /** Does the work, and awaits what it promises, as the phase of that name. */
  time<T>(name: string, work: () => T): T {
    const end = this.#begin(name);
    try {
      const result = work();
      if (result instanceof Promise) return this.#untilSettled(result, end) as T;
      end();
      return result;
    } catch (cause) {
      end({ cause });
      throw cause;
    }
  }

  /** Returns the port with each of its methods timed as the phase of that name. */
  timePort<T extends object>(name: string, port: T): T {
    return new Proxy(port, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key);
        if (typeof value !== 'function') return value;
        if (typeof key === 'symbol') return value.bind(target) as unknown;
        return (...args: unknown[]): unknown => this.time(name, () => Reflect.apply(value, target, args) as unknown);
      },
    });
  }

  /** The phase that first threw the error, or what caused it. */
  phaseOf(error: unknown): string | undefined {
    const name = this.#failures.get(error);
    return name ?? (error instanceof Error && error.cause !== undefined ? this.phaseOf(error.cause) : undefined);
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

  /** Begins a phase; what is returned ends it. */
  #begin(name: string): (failure?: { readonly cause: unknown }) => void {
    const startMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(startMs);
    this.#awaited += 1;
    return (failure) => {
      if (failure !== undefined && !this.#failures.has(failure.cause)) this.#failures.set(failure.cause, name);
      const endMs = this.elapsedMs;
      this.#phases.push({ name, startMs, durationMs: endMs - startMs, isFailed: failure !== undefined });
      this.#awaited -= 1;
      if (this.#awaited === 0) this.#stepStartMs = endMs;
    };
  }

  async #untilSettled<T>(result: Promise<T>, end: (failure?: { readonly cause: unknown }) => void): Promise<T> {
    try {
      const value = await result;
      end();
      return value;
    } catch (cause) {
      end({ cause });
      throw cause;
    }
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
