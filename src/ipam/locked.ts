import { NetplugError } from '../base/errors.ts';
import type { NodeName } from '../model/names.ts';

/** What asks for it fails for now, and is asked again later, by then perhaps of another datastore. */
export function locked(what: 'assign an address' | 'release an address', node: NodeName): NetplugError {
  return new NetplugError('store/locked', `Cannot ${what} on node "${node}": the datastore is locked`, {
    hint: 'Try again later: somebody moves or repairs it, and ends that with "netplugctl datastore unlock"',
    facts: { node },
  });
}
