import { evaluateEnd, type EndVerdict } from './evaluate.ts';
import type { Packet } from './match-packet.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyEndpoint, PolicyRule } from './resolved-policy.ts';

/**
 * Returns what policies say of a request or connection that reaches the pod; undefined when they ask nothing that its addresses and ports
 * do not tell: the kernel has decided, and a second opinion could differ only by mistake.
 */
export function judgeRequest(view: PolicyView, endpoint: PolicyEndpoint, packet: Packet): EndVerdict | undefined {
  return asksForRequests(view, endpoint) ? evaluateEnd(view, { endpoint, direction: 'ingress', packet }) : undefined;
}

/** Reports whether a rule for what reaches the endpoint is about requests, or about accounts, which certificates name. */
export function asksForRequests(view: PolicyView, endpoint: PolicyEndpoint): boolean {
  return (
    view.tiers.some((tier) =>
      view.policiesOf(endpoint, tier, 'ingress').some(({ rules }) => rules.ingress?.some(isAboutRequests)),
    ) || endpoint.profiles.some((name) => view.profile(name)?.rules.ingress.some(isAboutRequests))
  );
}

function isAboutRequests({ http, source }: PolicyRule): boolean {
  return http !== undefined || source.accounts !== undefined;
}
