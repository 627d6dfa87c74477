/** Lets many in at once, or one alone: CNI wants GC to run while nothing else does. */
export class Gate {
  #inside = 0;
  #last: Promise<void> = Promise.resolve();
  #left: (() => void) | undefined;

  async shared<T>(work: () => Promise<T>): Promise<T> {
    await this.#last;
    this.#inside += 1;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      if (this.#inside === 0) this.#left?.();
    }
  }

  async alone<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    let open = (): void => undefined;
    this.#last = before.then(async () => new Promise<void>((resolve) => (open = resolve)));
    await before;
    // A call that has passed the gate in this turn is counted before the next.
    await Promise.resolve();
    if (this.#inside > 0) await new Promise<void>((resolve) => (this.#left = resolve));
    this.#left = undefined;
    try {
      return await work();
    } finally {
      open();
    }
  }
}
