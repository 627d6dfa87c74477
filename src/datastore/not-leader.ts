import { NetplugError } from '../base/errors.ts';

/** The error of a write that only the leader may make. */
export function notLeader(): NetplugError {
  return new NetplugError('store/not-leader', 'Cannot write: this process no longer holds the leader lease');
}
