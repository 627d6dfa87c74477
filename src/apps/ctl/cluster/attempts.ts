import { reasonOf } from '../../../base/errors.ts';
import type { ReadFact, Unread } from '../../../checks/check.ts';

/** Reads facts one by one, and remembers which could not be read. */
export interface Attempts {
  readonly unread: readonly Unread[];
  /** Returns `fallback` for a fact that cannot be read. */
  readonly read: <T>(fact: ReadFact, fallback: T, read: () => Promise<T>) => Promise<T>;
}

export function openAttempts(signal: AbortSignal): Attempts {
  const unread: Unread[] = [];
  return {
    unread,
    read: async (fact, fallback, read) => {
      try {
        return await read();
      } catch (cause) {
        signal.throwIfAborted();
        unread.push({ fact, why: reasonOf(cause) });
        return fallback;
      }
    },
  };
}
