/** Returns a signal that aborts on SIGTERM, SIGINT or SIGHUP, so that the process can undo what it started. */
export function interruptions(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.once(name, () => {
      controller.abort(new Error(`stopped by ${name}`));
    });
  }
  return controller.signal;
}

/** Resolves when the signal aborts. */
export async function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  if (signal.aborted) resolve();
  await promise;
}
