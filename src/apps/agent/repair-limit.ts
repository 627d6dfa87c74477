import type { Clock } from '../../base/clock.ts';

/** Repairs in a row that are made at once. */
const FREE = 3;
const FIRST_MS = 5000;
const MAX_MS = 300_000;
/** After so long without a repair, the next one counts as the first. */
const QUIET_MS = 3_600_000;

/** Limits how often something is repaired that another program changes again and again: the wait doubles, up to five minutes. */
export class RepairLimit {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #repairs = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Number of repairs without an hour of quiet between them. */
  get repairs(): number {
    return this.#clock.monotonic() - this.#lastMs > QUIET_MS ? 0 : this.#repairs;
  }

  /** Whether repairs are so frequent that the next one may have to wait. */
  get isContested(): boolean {
    return this.repairs > FREE;
  }

  /** Returns whether a repair is due now, and counts it. */
  tryRepair(): boolean {
    const { repairs } = this;
    const waitMs = repairs < FREE ? 0 : Math.min(MAX_MS, FIRST_MS * 2 ** (repairs - FREE));
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#lastMs < waitMs) return false;
    this.#repairs = repairs + 1;
    this.#lastMs = nowMs;
    return true;
  }
}
