import { NetplugError } from '../../base/errors.ts';

/** Returns a signal that aborts with an error after the time, or when `interrupted` aborts. `flag` is how to set a longer time. */
export function limitTo(seconds: number, interrupted: AbortSignal, flag = '--timeout'): AbortSignal {
  const limit = new AbortController();
  const end = AbortSignal.any([interrupted, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
  const abort = (): void => {
    if (interrupted.reason instanceof NetplugError) {
      limit.abort(interrupted.reason);
      return;
    }
    const message = interrupted.aborted ? 'The command was interrupted' : `Timed out after ${String(seconds)} s`;
    limit.abort(
      new NetplugError('cni/deadline', message, {
        hint: interrupted.aborted ? 'Repeat the command' : `Set a longer timeout with ${flag} SECONDS`,
      }),
    );
  };
  if (end.aborted) abort();
  else end.addEventListener('abort', abort, { once: true });
  return limit.signal;
}
