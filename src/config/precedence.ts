import type { Family } from '../net/address.ts';
import type { PodWishes } from './annotations.ts';
import type { PoolChoice } from './netconf.ts';

/**
 * Returns the pools to use (specification, "Precedence of address-assignment methods"): those of the pod's annotation,
 * else of its namespace's, else of the network configuration. With none of them, node selectors decide.
 */
export function effectivePools(family: Family, configured: PoolChoice, wishes: PodWishes | undefined): PoolChoice {
  const wish = wishes?.pools[family];
  if (wish !== undefined)
    return { assign: configured.assign, pools: wish.refs, askedBy: { rule: wish.rule, text: wish.askedBy } };
  if (configured.pools === undefined) return configured;
  return {
    ...configured,
    askedBy: { rule: 'netconf', text: `ipam.ipv${String(family)}_pools of the network configuration` },
  };
}
