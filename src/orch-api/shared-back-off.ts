import type { Patience } from '../base/retry.ts';

const FIRST_MS = 100;
const LONGEST_MS = 5000;

/**
 * How long all watches of one API leave it alone after it did not serve one of them. Trouble that several meet at the
 * same moment counts once; each watch comes back a random part later, so that they do not come all at once.
 */
export class SharedBackOff {
  readonly #patience: Patience;
  #failures = 0;
  /** On the monotonic clock. */
  #restsUntil = Number.NEGATIVE_INFINITY;

  constructor(patience: Patience) {
    this.#patience = patience;
  }

  /** Milliseconds until the API is to be asked again. */
  get restMs(): number {
    return Math.max(0, this.#restsUntil - this.#patience.clock.monotonic());
  }

  /** Notes that the API did not serve; `waitMs` is what it asked for itself. */
  refused(waitMs: number | undefined): void {
    const isNew = this.restMs === 0;
    const ownMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#failures, 10));
    if (isNew) this.#failures += 1;
    if (!isNew && waitMs === undefined) return;
    const until = this.#patience.clock.monotonic() + (waitMs ?? ownMs);
    this.#restsUntil = Math.max(this.#restsUntil, until);
  }

  served(): void {
    this.#failures = 0;
  }

  /** Returns at once when the API may be asked. */
  async wait(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#patience;
    for (let restMs = this.restMs; restMs > 0; restMs = this.restMs) {
      await clock.sleep(restMs + random.int(1 + Math.ceil(restMs / 2)), signal);
    }
  }
}
