/** Runs the work of each key sequentially, in the order of arrival, also after a failure. Different keys run concurrently. */
export class SerialQueue {
  readonly #last = new Map<string, Promise<void>>();

  async run<T>(work: () => Promise<T>, key = ''): Promise<T> {
    const before = this.#last.get(key);
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#last.set(key, done);
    try {
      await before;
      return await work();
    } finally {
      resolve();
      if (this.#last.get(key) === done) this.#last.delete(key);
    }
  }
}
