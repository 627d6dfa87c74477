import { type Patience, pauseMs, type Pauses } from './retry.ts';

/**
 * Paces work that begins again whenever it ends, such as a watch. The pauses grow while it fails soon after it began.
 * Work that lasted longer than the longest pause begins again after the first pause.
 */
export class Restarts {
  readonly #patience: Patience;
  readonly #pauses: Pauses;
  #failures = 0;
  #begunMs = 0;
  #cause: unknown;

  constructor({ clock, random }: Patience, pauses: Pauses) {
    this.#patience = { clock, random };
    this.#pauses = pauses;
  }

  begin(): void {
    this.#begunMs = this.#patience.clock.monotonic();
  }

  /** Notes why the work ended. Returns the number of failures in a row. */
  fail(cause: unknown): number {
    const { longestMs, longestRefusedMs } = this.#pauses;
    const hasLasted = this.#patience.clock.monotonic() - this.#begunMs > Math.max(longestMs, longestRefusedMs);
    this.#failures = hasLasted ? 1 : this.#failures + 1;
    this.#cause = cause;
    return this.#failures;
  }

  /** Waits before the work begins again. Returns early when the signal aborts. */
  async rest(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#patience;
    const failures = Math.max(1, this.#failures);
    const restMs = pauseMs({ failures, cause: this.#cause }, this.#pauses, random);
    await clock.sleep(restMs, signal).catch(() => undefined);
  }
}
