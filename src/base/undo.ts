/**
 * A stack of undo steps. Unless `disarm` was called, leaving the scope (`await using`) runs them in reverse order. Every
 * step runs even when one fails, and the failures are thrown together as one AggregateError.
 */
export class Undo implements AsyncDisposable {
  #steps: (() => Promise<void> | void)[] = [];

  defer(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  /** Drops the steps, so that nothing is undone. */
  disarm(): void {
    this.#steps = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (const step of this.#steps.reverse()) {
      try {
        await step();
      } catch (cause) {
        failures.push(cause);
      }
    }
    this.#steps = [];
    if (failures.length > 0) throw new AggregateError(failures, 'Cannot undo everything');
  }
}
