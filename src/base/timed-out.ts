import { NetplugError } from './errors.ts';

/** Returns the error for an aborted wait: the signal's reason when it is a NetplugError, otherwise `store/unavailable`. */
export function timedOut(signal: AbortSignal, doing: string): NetplugError {
  const reason: unknown = signal.reason;
  if (reason instanceof NetplugError) return reason;
  return new NetplugError('store/unavailable', `Timed out while ${doing}`, {
    hint: 'Check the health of the datastore and the connection to it, then try again',
    cause: reason,
  });
}
