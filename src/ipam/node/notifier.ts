import type { Clock } from '../../base/clock.ts';

/** Without a reason, one with a stack would be made each time. */
const NOTIFIED = new Error('notified');

/** Wakes every waiter when something has changed. */
export class Notifier {
  readonly #clock: Clock;
  readonly #waiting = new Set<AbortController>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  notify(): void {
    for (const waiting of this.#waiting) waiting.abort(NOTIFIED);
    this.#waiting.clear();
  }

  /** Resolves at the next notification, or after `ms`. */
  async next(ms: number): Promise<void> {
    const waiting = new AbortController();
    this.#waiting.add(waiting);
    await this.#clock.sleep(ms, waiting.signal).catch(() => undefined);
    this.#waiting.delete(waiting);
  }
}
