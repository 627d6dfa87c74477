import { formatAddress } from '../net/address.ts';
import { describeHolder } from './assign-errors.ts';
import type { AddressConflict } from './plan-assertion.ts';

/**
 * Says that a pod of this node uses an address which another one holds. It came back with its node after the address was moved, or
 * the datastore was restored. Its interface stays: nothing tells which of both is meant to run.
 */
export function lostAddressProblem({ address, owner, holder }: AddressConflict): string {
  return (
    `container "${owner.containerId}" of this node uses ${formatAddress(address)}, which is held by ${describeHolder(holder)}: ` +
    'packets reach one of both'
  );
}
