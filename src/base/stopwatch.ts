import type { Clock } from './clock.ts';

/** A period of a call spent on one kind of work. Times are in milliseconds since the stopwatch was created. */
export interface Phase {
  readonly name: string;
  readonly startMs: number;
  readonly durationMs: number;
  readonly isFailed: boolean;
}

/**
 * Divides the whole time of a call into named phases. Awaited work has the name given to `time`, and several such phases
 * may overlap. The time between them belongs to the current step of the caller.
 */
export class Stopwatch {
  readonly #clock: Clock;
  readonly #zeroMs: number;
  readonly #phases: Phase[] = [];
  readonly #failures = new Map<unknown, string>();
  /** Number of phases that are awaited now. */
  #awaited = 0;
  #step: string;
  /** When the current step started or continued; valid only while nothing is awaited. */
  #stepStartMs = 0;

  constructor(clock: Clock, step: string) {
    this.#clock = clock;
    this.#zeroMs = clock.monotonic();
    this.#step = step;
  }

  /** Milliseconds since the stopwatch was created. */
  get elapsedMs(): number {
    return this.#clock.monotonic() - this.#zeroMs;
  }

  /** Ends the current step of the caller and starts another. */
  enter(step: string): void {
    const nowMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(nowMs);
    this.#step = step;
    this.#stepStartMs = nowMs;
  }

  /** Runs the work as the phase of that name, which ends when the work, or the promise it returns, has ended. */
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

  /** Returns the phase that first threw the error, or one of its causes. */
  phaseOf(error: unknown): string | undefined {
    const name = this.#failures.get(error);
    return name ?? (error instanceof Error && error.cause !== undefined ? this.phaseOf(error.cause) : undefined);
  }

  /** Ends the current step. Returns all phases in the order of their start, the longer first. */
  stop(): { readonly totalMs: number; readonly phases: readonly Phase[] } {
    const totalMs = this.elapsedMs;
    if (this.#awaited === 0) this.#endStep(totalMs);
    this.#stepStartMs = totalMs;
    return { totalMs, phases: this.#phases.toSorted(byStart) };
  }

  /** Returns `<phase>Ms` for each phase that has ended, and `totalMs`. */
  facts(): Record<string, number> {
    const sums = Object.entries(sumByName(this.#phases)).map(([name, ms]) => [`${name}Ms`, rounded(ms)] as const);
    return { ...Object.fromEntries(sums), totalMs: rounded(this.elapsedMs) };
  }

  /** Starts a phase; the returned function ends it. */
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

/** Returns milliseconds by name, in the order in which names first occur. */
export function sumByName(phases: readonly Phase[]): Record<string, number> {
  const sums = new Map<string, number>();
  for (const { name, durationMs } of phases) sums.set(name, (sums.get(name) ?? 0) + durationMs);
  return Object.fromEntries(sums);
}

function rounded(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function byStart(a: Phase, b: Phase): number {
  return a.startMs === b.startMs ? b.durationMs - a.durationMs : a.startMs - b.startMs;
}
