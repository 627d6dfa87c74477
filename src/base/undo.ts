/**
 * A stack of undo steps. Unless `disarm` was called, leaving the scope (`await using`) runs them in reverse order. Every
 * step runs even when one fails, and the failures are thrown together as one AggregateError.
 */
export class Undo implements AsyncDisposable {
  #steps: (() => Promise<void> | void)[] = [];
  #isObsolete: () => Promise<boolean> = async () => Promise.resolve(false);

  defer(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  /** Undoes nothing when this resolves to true before the first step. */
  unless(isObsolete: () => Promise<boolean>): void {
    this.#isObsolete = isObsolete;
  }

  /** Drops the steps, so that nothing is undone. */
  disarm(): void {
    this.#steps = [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#steps.length === 0 || (await this.#isObsolete())) return;
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
