import type { Address } from '../../../../net/address.ts';
import type { PolicyView } from '../../../../policy/policy-view.ts';

/** Returns the addresses of the pods of the node. */
export function localPodAddresses(view: Pick<PolicyView, 'endpoints'>, node: string): readonly Address[] {
  const own: Address[] = [];
  for (const endpoint of view.endpoints.values())
    if (endpoint.kind === 'workload' && endpoint.node === node) own.push(...endpoint.addresses);
  return own;
}
