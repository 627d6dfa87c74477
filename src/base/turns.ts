/**
 * Lets those who wait go on one after the other, each in a turn of the event loop of its own: when many are told the
 * same at once, whatever else wants to be heard does not wait for all of them.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  async next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#waiting.length === 1) setImmediate(this.#go);
    });
  }

  readonly #go = (): void => {
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) setImmediate(this.#go);
  };
}
