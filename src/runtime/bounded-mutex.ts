import type { Clock } from '../base/clock.ts';

/** A place in the queue, released on dispose. */
export interface Ticket extends Disposable {
  /** Whether the caller waited behind another. */
  readonly hasWaited: boolean;
}

/**
 * Serializes callers in arrival order. After `limitMs` a waiting caller proceeds anyway, so this is not a lock.
 */
export class BoundedMutex {
  readonly #clock: Clock;
  readonly #limitMs: number;
  #last: Promise<void> | undefined;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** @throws the signal's reason */
  async take(signal: AbortSignal): Promise<Ticket> {
    signal.throwIfAborted();
    const before = this.#last;
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const last = (before ?? Promise.resolve()).then(async () => done);
    this.#last = last;
    const end = (): void => {
      resolve();
      void this.#clearWhenIdle(last);
    };
    try {
      if (before !== undefined) await this.#wait(before, signal);
    } catch (cause) {
      end();
      throw cause;
    }
    return { hasWaited: before !== undefined, [Symbol.dispose]: end };
  }

  /** Clears the queue once its last caller has finished. */
  async #clearWhenIdle(last: Promise<void>): Promise<void> {
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
