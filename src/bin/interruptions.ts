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
