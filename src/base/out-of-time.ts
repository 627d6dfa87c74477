import { NetplugError } from './errors.ts';

/** The error for a signal that ended the wait: its own reason when that is ours, otherwise `store/unavailable`. */
export function outOfTime(signal: AbortSignal, doing: string): NetplugError {
  const reason: unknown = signal.reason;
  if (reason instanceof NetplugError) return reason;
  return new NetplugError('store/unavailable', `Cannot finish in time: the time ran out while ${doing}`, {
    hint: 'Look at the health of the datastore and the way to it, then try again',
    cause: reason,
  });
}
