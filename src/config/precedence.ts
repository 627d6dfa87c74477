import type { Family } from '../net/address.ts';
import type { PodRequests } from './annotations.ts';
import type { PoolChoice } from './netconf.ts';

/**
 * Returns the pools to use (specification, "Precedence of address-assignment methods"): those of the pod's annotation,
 * else of its namespace's, else of the network configuration. With none of them, node selectors decide.
 */
export function effectivePools(family: Family, configured: PoolChoice, requests: PodRequests | undefined): PoolChoice {
  const request = requests?.pools[family];
  if (request !== undefined)
    return { assign: configured.assign, pools: request.refs, askedBy: { rule: request.rule, text: request.askedBy } };
  if (configured.pools === undefined) return configured;
  return {
    ...configured,
    askedBy: { rule: 'netconf', text: `ipam.ipv${String(family)}_pools of the network configuration` },
  };
}
