import type { OrderedPolicy } from './resolve-policy.ts';
import type { PolicyDirection, PolicyRule, ResolvedPolicy, ResolvedProfile } from './resolved-policy.ts';

/** Stands for rules that are not enforced. */
const DENY_ALL: PolicyRule = { action: 'Deny', source: {}, destination: {}, index: 0 };

/** Returns the policy with rules that deny everything, in its directions. */
export function closedPolicy(ordered: OrderedPolicy): OrderedPolicy {
  const { policy } = ordered;
  const rules = Object.fromEntries(Object.keys(policy.rules).map((direction) => [direction, [DENY_ALL]]));
  return { ...ordered, policy: { ...policy, rules } };
}

function isClosed({ rules }: ResolvedPolicy, direction: PolicyDirection): boolean {
  return rules[direction]?.[0] === DENY_ALL;
}

/**
 * Returns the policies of a list, in order, that packets may reach: none after one that is closed, and of staged ones that are
 * closed the first. Users may have any number of policies beyond their budgets.
 */
export function reachedPolicies(
  policies: readonly ResolvedPolicy[],
  direction: PolicyDirection,
): readonly ResolvedPolicy[] {
  const end = policies.findIndex((policy) => !policy.isStaged && isClosed(policy, direction));
  const reached = end === -1 ? policies : policies.slice(0, end + 1);
  const first = reached.find((policy) => policy.isStaged && isClosed(policy, direction));
  return reached.filter((policy) => policy === first || !policy.isStaged || !isClosed(policy, direction));
}

/** Returns a profile with rules that deny everything. */
export function closedProfile(name: string): ResolvedProfile {
  return { name, rules: { ingress: [DENY_ALL], egress: [DENY_ALL] } };
}

/** Says what a closed policy does, and why. */
export function closedText({ id, isStaged }: Pick<ResolvedPolicy, 'id' | 'isStaged'>, reason: string): string {
  return `${id} ${isStaged ? 'is staged and counts everything as denied' : 'denies everything'}: ${reason}`;
}
