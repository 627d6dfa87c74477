/**
 * An unbounded queue from any number of producers to one listener. `close` and `fail` end it at once: queued and later
 * items are dropped.
 */
export class Channel<T> implements AsyncIterable<T> {
  #waiting: T[] = [];
  #end: { readonly failure?: unknown } | undefined;
  #wake: (() => void) | undefined;

  push(item: T): void {
    if (this.#end !== undefined) return;
    this.#waiting.push(item);
    this.#wake?.();
  }

  close(): void {
    this.#finish({});
  }

  /** Ends the channel; the listener throws `failure`. */
  fail(failure: unknown): void {
    this.#finish({ failure });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      if (this.#end !== undefined) {
        if ('failure' in this.#end) throw this.#end.failure;
        return;
      }
      const items = this.#waiting;
      this.#waiting = [];
      for (const item of items) {
        if (this.#end !== undefined) break;
        yield item;
      }
      // They would be kept until the next one comes.
      items.length = 0;
      if (this.#waiting.length === 0 && this.#end === undefined) {
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    }
  }

  #finish(end: { readonly failure?: unknown }): void {
    this.#end ??= end;
    this.#waiting = [];
    this.#wake?.();
  }
}
