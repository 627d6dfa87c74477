import { type Packet, ruleMatchesClient } from './match-packet.ts';
import { policiesOn } from './packet-path.ts';
import type { PolicyView } from './policy-view.ts';
import type { PolicyEndpoint, PolicyRule, ResolvedPolicy, ResolvedProfile } from './resolved-policy.ts';

/** What requests of one client to one port have in common. */
export type Client = Omit<Packet, 'sourcePort' | 'content'> & {
  readonly content: Exclude<Packet['content'], undefined>;
};

/**
 * Returns the view with the rules for what reaches the endpoint that can match requests of the client, reduced to what tells requests
 * apart: methods, paths and source ports. It judges those as the whole view does, and only those. Policies that say nothing of the client
 * are left out: most of many do not.
 */
export function narrowView(view: PolicyView, endpoint: PolicyEndpoint, client: Client): PolicyView {
  const packets = { ...client, sourcePort: 'any' } as const;
  const reduced = (rules: readonly PolicyRule[]): readonly PolicyRule[] =>
    rules.flatMap((rule) => (ruleMatchesClient(view, rule, packets) ? [reducedRule(rule)] : []));
  const narrowed = new Map(
    view.tiers.map((tier) => {
      const applied = policiesOn(view, { tier, endpoint, direction: 'ingress', path: 'local' });
      return [
        tier.name,
        speaking(applied.map((policy) => ({ ...policy, rules: { ingress: reduced(policy.rules.ingress ?? []) } }))),
      ];
    }),
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

/** Without those that have no rule. Where no other is in force, one of them is the reason for the default of its tier. */
function speaking(policies: readonly ResolvedPolicy[]): readonly ResolvedPolicy[] {
  const isEnforced = ({ isStaged }: ResolvedPolicy): boolean => !isStaged;
  const left = policies.filter(({ rules }) => rules.ingress?.length !== 0);
  const silent = left.some(isEnforced) ? [] : policies.filter(isEnforced).slice(0, 1);
  return [...left, ...silent];
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
