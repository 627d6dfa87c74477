/** Opens a resource when it is first used. The next use repeats an attempt that failed. */
export class OpenedOnce<T extends Disposable> implements Disposable {
  readonly #open: () => T;
  #opened: T | undefined;

  constructor(open: () => T) {
    this.#open = open;
  }

  /** The resource; undefined before its first use. */
  get opened(): T | undefined {
    return this.#opened;
  }

  /** @throws what opening it throws */
  get(): T {
    this.#opened ??= this.#open();
    return this.#opened;
  }

  [Symbol.dispose](): void {
    this.#opened?.[Symbol.dispose]();
  }
}
