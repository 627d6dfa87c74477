import { NetplugError } from '../base/errors.ts';
import type { NodeName } from '../model/names.ts';

/** Returns the error of a call while the datastore is locked for maintenance. The runtime retries the call. */
export function lockedError(what: 'assign an address' | 'release an address', node: NodeName): NetplugError {
  return new NetplugError('store/locked', `Cannot ${what} on node "${node}": the datastore is locked for maintenance`, {
    hint: 'Try again later, or unlock it with "netplugctl datastore unlock"',
    facts: { node },
  });
}
