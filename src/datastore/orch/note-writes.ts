import { timeLimit } from '../../base/clock.ts';
import { isNetplugError, reasonOf } from '../../base/errors.ts';
import { forEachLimit } from '../../base/for-each-limit.ts';
import type { Log } from '../../base/log.ts';

/** The time limit of one annotation; those of other pods wait behind it. */
const NOTE_MS = 4000;
const AT_ONCE = 8;

/** Writes and removes the annotations on pods of one commit. The failure of one does not stop the rest. */
export class NoteWrites {
  readonly #log: Log;
  readonly #signal: AbortSignal;
  #written = 0;
  readonly #failures: unknown[] = [];

  constructor({ log }: { readonly log: Log }, signal: AbortSignal) {
    this.#log = log;
    this.#signal = signal;
  }

  /** Tries each of them. @throws the reason of the signal that the commit was given */
  async write<T>(notes: readonly T[], act: (note: T, signal: AbortSignal) => Promise<void>): Promise<void> {
    await forEachLimit(notes, AT_ONCE, async (note) => {
      using limit = timeLimit(NOTE_MS);
      try {
        await act(note, AbortSignal.any([this.#signal, limit.signal]));
        this.#written += 1;
      } catch (cause) {
        if (this.#signal.aborted) throw cause;
        this.#failures.push(cause);
      }
    });
  }

  /**
   * Logs the notes that failed. An API that does not serve at all is a failure of the commit: `isServed` says that it
   * took something else of it. @throws store/unavailable
   */
  settle({ isServed }: { readonly isServed: boolean }): void {
    const isAway = !isServed && this.#written === 0 && !this.#failures.every(isRefusal);
    if (isAway) throw this.#failures[0];
    for (const cause of this.#failures)
      this.#log.warning('endpoint annotation not written', { reason: reasonOf(cause) });
  }
}

function isRefusal(cause: unknown): boolean {
  return isNetplugError(cause, 'resource/invalid', 'store/refused');
}
