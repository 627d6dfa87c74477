/** Lets pieces of work happen one after the other, in the order in which they came, whatever becomes of the one before. */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve();

  async run<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work);
    this.#last = mine.catch(() => undefined);
    return mine;
  }
}
