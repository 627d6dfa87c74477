import { type Packet, ruleMatchesClient } from './match-packet.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyEndpoint, PolicyRule, ResolvedPolicy, ResolvedProfile } from './resolved-policy.ts';

/** What requests of one client to one port have in common. */
export type Client = Omit<Packet, 'sourcePort' | 'content'> & {
  readonly content: Exclude<Packet['content'], undefined>;
};

/**
 * Returns the view with the rules for what reaches the endpoint that can match requests of the client, reduced to what tells requests
 * apart: methods, paths and source ports. It judges those as the whole view does, and only those.
 */
export function narrowView(view: PolicyView, endpoint: PolicyEndpoint, client: Client): PolicyView {
  const packets = { ...client, sourcePort: 'any' } as const;
  const reduced = (rules: readonly PolicyRule[]): readonly PolicyRule[] =>
    rules.flatMap((rule) => (ruleMatchesClient(view, rule, packets) ? [reducedRule(rule)] : []));
  const policies = new Map<ResolvedPolicy, ResolvedPolicy>();
  const narrowed = new Map(
    view.tiers.map((tier) => [
      tier.name,
      view.policiesOf(endpoint, tier, 'ingress').map((policy) => {
        const known = policies.get(policy) ?? { ...policy, rules: { ingress: reduced(policy.rules.ingress ?? []) } };
        policies.set(policy, known);
        return known;
      }),
    ]),
  );
  const profiles = new Map<string, ResolvedProfile>();
  for (const name of endpoint.profiles) {
    const profile = view.profile(name);
    if (profile !== undefined)
      profiles.set(name, { name, rules: { ingress: reduced(profile.rules.ingress), egress: [] } });
  }
  return {
    tiers: view.tiers,
    policiesOf: (_, tier, direction) => (direction === 'ingress' ? (narrowed.get(tier.name) ?? []) : []),
    profile: (name) => profiles.get(name),
    endpoints: view.endpoints,
    hostEndpoints: view.hostEndpoints,
    services: view.services,
    nodes: view.nodes,
    membersOf: (selector) => view.membersOf(selector),
    isMember: (selector, address) => view.isMember(selector, address),
    endpointsAt: (address) => view.endpointsAt(address),
    namedPortsOf: (...asked) => view.namedPortsOf(...asked),
    isAccountOf: (selector, account) => view.isAccountOf(selector, account),
    accountsOf: (selector) => view.accountsOf(selector),
    guardedPorts: () => view.guardedPorts(),
    isGuarded: (address, port) => view.isGuarded(address, port),
  };
}

function reducedRule({ action, http, index, source: { ports, notPorts } }: PolicyRule): PolicyRule {
  return {
    action,
    index,
    ...(http === undefined ? {} : { http }),
    source: { ...(ports === undefined ? {} : { ports }), ...(notPorts === undefined ? {} : { notPorts }) },
    destination: {},
  };
}
