import type { OrderedPolicy } from './resolve-policy.ts';
import type { PolicyRule, ResolvedPolicy, ResolvedProfile } from './resolved-policy.ts';

/** Stands for rules that are not enforced. */
const DENY_ALL: PolicyRule = { action: 'Deny', source: {}, destination: {}, index: 0 };

/** Returns the policy with rules that deny everything, in its directions. */
export function closedPolicy(ordered: OrderedPolicy): OrderedPolicy {
  const { policy } = ordered;
  const rules = Object.fromEntries(Object.keys(policy.rules).map((direction) => [direction, [DENY_ALL]]));
  return { ...ordered, policy: { ...policy, rules } };
}

/** Returns a profile with rules that deny everything. */
export function closedProfile(name: string): ResolvedProfile {
  return { name, rules: { ingress: [DENY_ALL], egress: [DENY_ALL] } };
}

/** Says what a closed policy does, and why. */
export function closedText({ id, isStaged }: Pick<ResolvedPolicy, 'id' | 'isStaged'>, reason: string): string {
  return `${id} ${isStaged ? 'is staged and counts everything as denied' : 'denies everything'}: ${reason}`;
}
