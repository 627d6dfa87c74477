import type { Clock } from '../../../../base/clock.ts';

/** Interval at which attachment records and the kernel are read, however often policies change. */
const RESYNC_MS = 10_000;
/** Reading the kernel takes at most one in so many parts of the time: it lists a set in a time that grows with the square of its size. */
const PARTS = 10;
/** However long that takes. */
const MOST_MS = 300_000;

/** When attachment records are read again, and the kernel is compared with the desired table. */
export class ResyncPace {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #listedMs = Number.NEGATIVE_INFINITY;
  #comparedMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Returns the time until the records are to be listed; 0 or less when they are. */
  get listInMs(): number {
    return this.#listedMs + RESYNC_MS - this.#clock.monotonic();
  }

  /** Returns the time until the kernel is to be compared; 0 or less when it is. */
  get compareInMs(): number {
    const intervalMs = Math.min(Math.max(RESYNC_MS, PARTS * this.#tookMs), MOST_MS);
    return this.#comparedMs + intervalMs - this.#clock.monotonic();
  }

  /** Records that were listed at that time. */
  listed(atMs: number): void {
    this.#listedMs = atMs;
  }

  /** Records that a comparison began at that time and has ended. How long the first one took says nothing: it has written everything. */
  compared(atMs: number): void {
    this.#tookMs = Number.isFinite(this.#comparedMs) ? this.#clock.monotonic() - atMs : 0;
    this.#comparedMs = atMs;
  }

  /** The last write failed, so both are due. */
  forget(): void {
    this.#listedMs = Number.NEGATIVE_INFINITY;
    this.#comparedMs = Number.NEGATIVE_INFINITY;
  }
}
