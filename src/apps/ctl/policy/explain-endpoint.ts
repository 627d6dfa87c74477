import type { Labels } from '../../../model/selector.ts';
import { formatAddress } from '../../../net/address.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyDirection, PolicyEndpoint, PolicyTier, ResolvedPolicy } from '../../../policy/resolved-policy.ts';
import { type ShownRule, showRule } from './shown-rule.ts';

export interface AppliedPolicy {
  readonly policy: string;
  readonly isStaged: boolean;
  readonly rules: readonly ShownRule[];
}

export interface AppliedProfile {
  readonly profile: string;
  /** A profile that does not exist has no rules. */
  readonly exists: boolean;
  readonly ingress: readonly ShownRule[];
  readonly egress: readonly ShownRule[];
}

/** Policies that decide about the traffic of one direction, in order. */
interface AppliedPolicies {
  readonly policies: readonly AppliedPolicy[];
  /** Fate of traffic that no rule of the policies matches. */
  readonly otherwise: 'denied' | 'profiles decide';
}

/** One attachment of a pod, as policies see it. */
export interface ExplainedEndpoint {
  readonly pod: string;
  readonly node: string;
  readonly interface?: string;
  readonly addresses: readonly string[];
  /** Includes the labels of its namespace and service account. */
  readonly labels: Labels;
  readonly ingress: AppliedPolicies;
  readonly egress: AppliedPolicies;
  readonly profiles: readonly AppliedProfile[];
}

/** Returns what applies to each attachment of the pod; none when the datastore has none. */
export function explainEndpoints(view: PolicyView, pod: string): readonly ExplainedEndpoint[] {
  return [...view.endpoints.values()]
    .filter(({ kind, shown }) => kind === 'workload' && shown === pod)
    .map((endpoint) => explainEndpoint(view, endpoint));
}

function explainEndpoint(view: PolicyView, endpoint: PolicyEndpoint): ExplainedEndpoint {
  const { shown, node, interfaceName, addresses, labels, profiles } = endpoint;
  return {
    pod: shown,
    node,
    ...(interfaceName === undefined ? {} : { interface: interfaceName }),
    addresses: addresses.map(formatAddress),
    labels: sortedLabels(labels),
    ingress: appliedIn(view, endpoint, 'ingress'),
    egress: appliedIn(view, endpoint, 'egress'),
    profiles: profiles.map((name) => explainProfile(view, name)),
  };
}

export function sortedLabels(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function appliedIn(view: PolicyView, endpoint: PolicyEndpoint, direction: PolicyDirection): AppliedPolicies {
  const { policies, isDenied } = explainTiers(view, direction, (tier) => view.policiesOf(endpoint, tier, direction));
  return { policies, otherwise: isDenied ? 'denied' : 'profiles decide' };
}

/** Returns the policies that apply, in order, and whether a tier denies what no rule of them matches. */
export function explainTiers(
  view: PolicyView,
  direction: PolicyDirection,
  policiesIn: (tier: PolicyTier) => readonly ResolvedPolicy[],
): { readonly policies: readonly AppliedPolicy[]; readonly isDenied: boolean } {
  const applied = view.tiers.map((tier) => ({ tier, policies: policiesIn(tier) }));
  return {
    policies: applied.flatMap(({ policies }) => policies.map((policy) => explainPolicy(policy, direction))),
    isDenied: applied.some(
      ({ tier, policies }) => tier.defaultAction === 'Deny' && policies.some(({ isStaged }) => !isStaged),
    ),
  };
}

function explainPolicy({ id, isStaged, rules }: ResolvedPolicy, direction: PolicyDirection): AppliedPolicy {
  return { policy: id, isStaged, rules: (rules[direction] ?? []).map((rule) => showRule(direction, rule)) };
}

export function explainProfile(view: PolicyView, name: string): AppliedProfile {
  const profile = view.profile(name);
  const rulesIn = (direction: PolicyDirection): readonly ShownRule[] =>
    (profile?.rules[direction] ?? []).map((rule) => showRule(direction, rule));
  return { profile: name, exists: profile !== undefined, ingress: rulesIn('ingress'), egress: rulesIn('egress') };
}
