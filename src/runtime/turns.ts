import type { Clock } from '../base/clock.ts';

/** The right to work alone, until it is disposed. */
export interface Turn extends Disposable {
  /** Whether others have worked since it was asked for. */
  readonly hasWaited: boolean;
}

/**
 * Lets users work one after the other, in the order of arrival, where working at once costs more than waiting. No lock:
 * a user that has waited for `limitMs` works beside the others.
 */
export class Turns {
  readonly #clock: Clock;
  readonly #limitMs: number;
  #last: Promise<void> | undefined;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** @throws the signal's reason */
  async take(signal: AbortSignal): Promise<Turn> {
    signal.throwIfAborted();
    const before = this.#last;
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const last = (before ?? Promise.resolve()).then(async () => done);
    this.#last = last;
    const end = (): void => {
      resolve();
      void this.#forget(last);
    };
    try {
      if (before !== undefined) await this.#wait(before, signal);
    } catch (cause) {
      end();
      throw cause;
    }
    return { hasWaited: before !== undefined, [Symbol.dispose]: end };
  }

  /** Forgets the end of the queue once everyone in it has worked. */
  async #forget(last: Promise<void>): Promise<void> {
    await last;
    if (this.#last === last) this.#last = undefined;
  }

  async #wait(before: Promise<void>, signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const limit = this.#clock.sleep(this.#limitMs, AbortSignal.any([signal, over.signal])).catch(() => undefined);
    await Promise.race([before, limit]);
    over.abort();
    signal.throwIfAborted();
  }
}
