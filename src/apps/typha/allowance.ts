const MINUTE_MS = 60_000;

/** Counts what a client does, against a number for each minute. */
export class Allowance {
  readonly #perMinute: number;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #count = 0;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** Counts one more, and reports whether it is within the number. */
  take(nowMs: number): boolean {
    if (nowMs - this.#sinceMs >= MINUTE_MS) [this.#sinceMs, this.#count] = [nowMs, 0];
    this.#count += 1;
    return this.#count <= this.#perMinute;
  }
}
