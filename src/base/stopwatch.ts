import type { Clock } from './clock.ts';

/** Adds up how long the named phases of a call took, in milliseconds. */
export class Stopwatch {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #phases = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startMs = clock.monotonic();
  }

  /** The phase that began last and has not ended. */
  current: string | undefined;

  async time<T>(phase: string, work: () => Promise<T>): Promise<T> {
    const startMs = this.#clock.monotonic();
    this.current = phase;
    try {
      const result = await work();
      this.current = undefined;
      return result;
    } finally {
      this.#phases.set(phase, (this.#phases.get(phase) ?? 0) + this.#clock.monotonic() - startMs);
    }
  }

  /** `<phase>Ms` for each phase, and `totalMs` since the watch was made. */
  facts(): Record<string, number> {
    const rounded = (ms: number): number => Math.round(ms * 10) / 10;
    const phases = [...this.#phases].map(([phase, ms]) => [`${phase}Ms`, rounded(ms)] as const);
    return { ...Object.fromEntries(phases), totalMs: rounded(this.#clock.monotonic() - this.#startMs) };
  }
}
