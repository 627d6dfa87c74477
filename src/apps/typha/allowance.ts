const MINUTE_MS = 60_000;

/** Counts what clients do, each against the same number for a minute. */
export class Allowance {
  readonly #perMinute: number;
  #sinceMs = Number.NEGATIVE_INFINITY;
  readonly #counts = new Map<string, number>();

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** Counts one more of the client, and reports whether it is within the number. */
  take(nowMs: number, client = ''): boolean {
    if (nowMs - this.#sinceMs >= MINUTE_MS) {
      this.#sinceMs = nowMs;
      this.#counts.clear();
    }
    const count = (this.#counts.get(client) ?? 0) + 1;
    this.#counts.set(client, count);
    return count <= this.#perMinute;
  }
}
