import type { Address } from '../net/address.ts';
import { hostCidr } from '../net/cidr.ts';
import { treesOf } from './cidr-tree.ts';
import type { TouchedPolicy } from './policy-view.ts';
import type { Selectable } from './resolve-endpoint.ts';
import type { resolvePolicy } from './resolve-policy.ts';

/** Items that changes of records touch, collected while they are applied. */
export interface Touches extends Readonly<Record<Exclude<keyof TouchedPolicy, 'selectors'>, Set<string>>> {
  /** Keys of what must be settled again. */
  readonly unsettled: Set<string>;
  /** Own addresses of nodes whose tunnel addresses have changed. */
  readonly ofNodes: Address[];
  /** Policies to settle, by id, as they were resolved; undefined for those that only other policies have changed. */
  readonly unsettledPolicies: Map<string, ReturnType<typeof resolvePolicy> | undefined>;
}

export function noTouches(): Touches {
  return {
    endpoints: new Set(),
    policies: new Set(),
    profiles: new Set(),
    namedPorts: new Set(),
    services: new Set(),
    nodes: new Set(),
    accounts: new Set(),
    guards: new Set(),
    unsettled: new Set(),
    ofNodes: [],
    unsettledPolicies: new Map(),
  };
}

/** Has network sets and host endpoints settled again in which addresses of changed nodes are: one look for all of these. */
export function unsettleAround({ ofNodes, unsettled }: Touches, selectables: ReadonlyMap<string, Selectable>): void {
  if (ofNodes.length === 0) return;
  const changed = treesOf(ofNodes.map(hostCidr));
  for (const [key, { cidrs, endpoint }] of selectables)
    if (endpoint?.kind !== 'workload' && cidrs.some((cidr) => changed[cidr.base.family].within(cidr).length > 0))
      unsettled.add(key);
}
