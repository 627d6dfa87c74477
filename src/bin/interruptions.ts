/** Aborted when somebody asks the process to end, so that it can take back what it began. */
export function interruptions(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.once(name, () => {
      controller.abort(new Error(`stopped by ${name}`));
    });
  }
  return controller.signal;
}
