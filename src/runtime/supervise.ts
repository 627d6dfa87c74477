/** A part of a program. It returns when the signal aborts, or earlier to shut down the whole program. */
export type SupervisedPart = (signal: AbortSignal) => Promise<void>;

/**
 * Runs all parts until `stop` aborts or one of them ends, then aborts the others and waits for all of them.
 * @throws the first failure of a part, other than an abort error
 */
export async function supervise(parts: readonly SupervisedPart[], stop: AbortSignal): Promise<void> {
  const ended = new AbortController();
  const signal = AbortSignal.any([stop, ended.signal]);
  const failures: unknown[] = [];
  await Promise.all(
    parts.map(async (run) => {
      try {
        await run(signal);
      } catch (cause) {
        if (!signal.aborted || !isCausedBy(cause, signal.reason)) failures.push(cause);
      } finally {
        ended.abort();
      }
    }),
  );
  if (failures.length > 0) throw failures[0];
}

function isCausedBy(error: unknown, reason: unknown): boolean {
  return error === reason || (error instanceof Error && error.cause !== undefined && isCausedBy(error.cause, reason));
}
