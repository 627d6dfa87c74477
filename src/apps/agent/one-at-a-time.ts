/**
 * Lets the calls of one container happen one after the other: a runtime that gave up on a call may come with the next
 * one while the first is still being taken back.
 */
export class OneAtATime {
  readonly #last = new Map<string, Promise<void>>();
  readonly #onWait: (ms: number) => void;
  readonly #now: () => number;

  /** `onWait` is told how long each call waited, in milliseconds. */
  constructor(now: () => number, onWait: (ms: number) => void) {
    this.#now = now;
    this.#onWait = onWait;
  }

  async run<T>(containerId: string, work: () => Promise<T>): Promise<T> {
    const sinceMs = this.#now();
    const before = this.#last.get(containerId);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#last.set(containerId, done);
    try {
      await before;
      this.#onWait(this.#now() - sinceMs);
      return await work();
    } finally {
      resolve();
      if (this.#last.get(containerId) === done) this.#last.delete(containerId);
    }
  }
}
