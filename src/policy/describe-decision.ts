import { never } from '../base/errors.ts';
import { describeRule } from './describe-rule.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyEndpoint } from './resolved-policy.ts';
import type { RuleOrigin } from './ruleset/policy-ruleset.ts';

/** Policy and rule that decided about a packet, with the reason. */
export interface DescribedDecision {
  /** Name as users write it: `NetworkPolicy shop/web`, `Profile kns.shop`; undefined when no single one decided. */
  readonly policy?: string;
  /** Example: `ingress[0]`; undefined when no rule matched. */
  readonly place?: string;
  /** A sentence without a full stop. */
  readonly reason: string;
}

/** Describes what a rule of the table comes from. The endpoint is the one whose policies decided, when it is known. */
export function describeOrigin(
  view: PolicyView,
  origin: RuleOrigin,
  endpoint: PolicyEndpoint | undefined,
): DescribedDecision {
  switch (origin.kind) {
    case 'policy':
    case 'profile': {
      const policy = origin.kind === 'policy' ? origin.name : `Profile ${origin.name}`;
      const place = `${origin.direction}[${String(origin.index)}]`;
      return { policy, place, reason: `${policy}, ${place}: ${describeRule(origin.rule)}` };
    }
    case 'tier':
      if (origin.isForwarded) return { reason: tierDefaultReason(['the host endpoint for forwarded traffic']) };
      return { reason: tierDefaultReason(endpoint === undefined ? [] : enforcedPolicies(view, origin, endpoint)) };
    case 'staged tier': {
      const [policy = '', ...others] = origin.policies;
      const reason = tierDefaultReason(origin.policies, 'would be denied');
      return others.length === 0 ? { policy, reason } : { reason };
    }
    case 'profiles':
      return { reason: noProfileReason(endpoint?.profiles) };
    case 'to host':
      return { reason: 'the node drops packets of its own pods (defaultEndpointToHostAction of AgentConfiguration)' };
    case 'unknown interface':
      return { reason: 'the policies of the pod are not known yet' };
    default:
      return never(origin);
  }
}

/** Returns why a tier's default action denies a packet. `policies` are those that apply; empty when not known. */
export function tierDefaultReason(policies: readonly string[], outcome = 'is denied'): string {
  const whose = policies.length === 0 ? 'the policies that apply' : policies.join(', ');
  return `no rule matches of ${whose}: what policies that apply do not allow ${outcome}`;
}

/** Returns why a packet that no policy decides is denied; undefined for profiles that are not known. */
export function noProfileReason(profiles: readonly string[] | undefined): string {
  if (profiles === undefined) return 'no policy decides, and no rule of a profile matches';
  return profiles.length === 0
    ? 'no policy decides, and the endpoint has no profile'
    : `no policy decides, and no rule matches of its profiles ${profiles.join(', ')}`;
}

function enforcedPolicies(
  view: PolicyView,
  { name, direction }: Extract<RuleOrigin, { kind: 'tier' }>,
  endpoint: PolicyEndpoint,
): readonly string[] {
  const tier = view.tiers.find((each) => each.name === name);
  if (tier === undefined) return [];
  return view
    .policiesOf(endpoint, tier, direction)
    .filter(({ isStaged }) => !isStaged)
    .map(({ id }) => id);
}
