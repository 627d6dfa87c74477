import type { Check } from '../../../checks/check.ts';
import { counted } from '../../../base/counted.ts';
import { describeOvertaken, type OvertakenDenial, overtakenDenials } from '../../../policy/overtaken-denials.ts';
import { resolveGlobalPolicy, resolveNetworkPolicy } from '../../../policy/resolve-policy.ts';
import { topic } from './topic.ts';

const SHOWN = 20;

export interface OrderFacts {
  /** Number of policies of netplug. */
  readonly policies: number;
  readonly overtaken: readonly OvertakenDenial[];
}

export const ORDER_CHECKS: readonly Check<OrderFacts>[] = [
  {
    id: 'policies/denial-overtaken',
    severity: 'warning',
    expected: 'no policy of a namespace before a global policy that denies',
    remedy:
      'Give the global policy a lower order, or the policy of the namespace a higher one; whoever may write NetworkPolicies of netplug chooses their order',
    command: 'netplugctl get globalnetworkpolicies,networkpolicies -A',
    judge: ({ overtaken }) => {
      const more = overtaken.length - SHOWN;
      return [
        ...overtaken.slice(0, SHOWN).map((each) => `${each.policy} ${describeOvertaken(each)}`),
        ...(more > 0 ? [`${String(more)} more`] : []),
      ];
    },
  },
];

export const ORDERS = topic({
  area: 'policies',
  scope: 'cluster',
  needsRecords: true,
  gather: async (sources, signal) => {
    const store = await sources.store();
    const [own, global] = await Promise.all([
      store.listResources('NetworkPolicy', signal),
      store.listResources('GlobalNetworkPolicy', signal),
    ]);
    const resolved = global.resources.map((each) => resolveGlobalPolicy(each));
    const ordered = resolved.filter((each) => 'policy' in each);
    const policies = [...own.resources.map((each) => resolveNetworkPolicy(each)), ...ordered];
    return { policies: policies.length, overtaken: overtakenDenials(policies) };
  },
  measure: ({ policies }) => [counted(policies, 'policy', 'policies')],
  checks: ORDER_CHECKS,
});
