import type { Clock } from './clock.ts';

/** Without a reason, one with a stack would be made each time. */
const REQUESTED = new Error('requested');

/** A request that one loop waits for. Requests before it is cleared count as one. */
export class Trigger {
  #isSet = false;
  #requested = new AbortController();

  get isSet(): boolean {
    return this.#isSet;
  }

  set(): void {
    this.#isSet = true;
    this.#requested.abort(REQUESTED);
  }

  clear(): void {
    this.#isSet = false;
  }

  /** Resolves when it is set, at the latest after `limitMs` if given, or when the signal aborts. */
  async wait(signal: AbortSignal, within?: { readonly limitMs: number; readonly clock: Clock }): Promise<void> {
    if (this.#isSet || signal.aborted) return;
    this.#requested = new AbortController();
    const either = AbortSignal.any([signal, this.#requested.signal]);
    if (within !== undefined) await within.clock.sleep(within.limitMs, either).catch(() => undefined);
    else await new Promise<void>((resolve) => either.addEventListener('abort', () => resolve(), { once: true }));
  }
}
