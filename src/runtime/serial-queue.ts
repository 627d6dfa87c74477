/** Runs work of one key one after the other, in the order of arrival, also after work that failed. Keys do not wait for each other. */
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
