import { protocolNumber } from '../model/protocol.ts';
import { evaluateSelector } from '../model/selector.ts';
import { parseAddress } from '../net/address.ts';
import { joinPath, type PolicyAdvice } from './advise-policy.ts';
import { evaluateEnd } from './evaluate.ts';
import type { PolicyView } from './policy-view.ts';
import { describeOvertaken, mayChooseOrder, overtakes } from './overtaken-denials.ts';
import { type DnsCache, isUsedOn, type VitalService, vitalServices } from './reach/vital-services.ts';
import type { PeerMatch, PolicyDirection, PolicyEndpoint, PolicyRule, ResolvedPolicy } from './resolved-policy.ts';

const DIRECTIONS: readonly PolicyDirection[] = ['ingress', 'egress'];
const DNS_PORT = 53;
const CLIENT_PORT = 40_000;
const SHOWN_PODS = 3;

/** Returns what is probably a mistake in a policy of the view, as only its cluster shows. */
export function adviseInCluster(
  view: PolicyView,
  policy: ResolvedPolicy,
  caches: readonly DnsCache[] = [],
): PolicyAdvice[] {
  const selected = [...view.endpoints.values()].filter(({ labels }) => evaluateSelector(policy.appliesTo, labels));
  if (selected.length === 0) {
    const message = 'selects no pod and no host endpoint of the cluster';
    return [{ path: 'selector', message }];
  }
  const rules = DIRECTIONS.flatMap((direction) =>
    (policy.rules[direction] ?? []).flatMap((rule) => adviseRule(view, rule, { direction, selected })),
  );
  const distinct = new Map(rules.map((advice) => [JSON.stringify(advice), advice]));
  const dns = vitalServices(view, caches).filter(({ protects, ports }) => protects === 'clients' && isOfDns(ports));
  return [
    ...distinct.values(),
    ...dns.flatMap((service) => adviseDns(view, { policy, service }, selected)),
    ...adviseOrder(view, policy, selected),
  ];
}

interface Place {
  readonly direction: PolicyDirection;
  readonly selected: readonly PolicyEndpoint[];
}

/** Several rules may stand for one written rule: it is worth a remark when one of them cannot match. */
function adviseRule(view: PolicyView, rule: PolicyRule, { direction, selected }: Place): readonly PolicyAdvice[] {
  const path = joinPath(direction, rule.index);
  const remarks = (['source', 'destination'] as const).flatMap((side) => {
    const isOwn = (side === 'destination') === (direction === 'ingress');
    const match = rule[side];
    const peers = isOwn ? selected : peersOf(view, match);
    return [...adviseSelector(view, match), ...adviseNames(rule, match, peers)].map((why) => `${side}: ${why}`);
  });
  return remarks.map((message) => ({ path, message }));
}

function adviseSelector(view: PolicyView, { selector }: PeerMatch): readonly string[] {
  if (selector === undefined || view.membersOf(selector).length > 0) return [];
  return ['never matches now, because its selectors select no pod, host endpoint or network set of the cluster'];
}

function peersOf(view: PolicyView, { selector }: PeerMatch): readonly PolicyEndpoint[] {
  const all = [...view.endpoints.values()];
  return selector === undefined ? all : all.filter(({ labels }) => evaluateSelector(selector.selector, labels));
}

/** Containers need not declare ports by number, so only names tell. */
function adviseNames(
  { protocol }: PolicyRule,
  { ports }: PeerMatch,
  ends: readonly PolicyEndpoint[],
): readonly string[] {
  if (ports === undefined || ends.length === 0) return [];
  const isServed = (name: string): boolean =>
    ends.some((end) => end.ports.some((port) => port.name === name && (protocol ?? port.protocol) === port.protocol));
  return ports.names
    .filter((name) => !isServed(name))
    .map((name) => `no container that it selects has a port "${name}"`);
}

/** Names global policies whose `Deny` rules the policy of a namespace decides before. */
function adviseOrder(
  view: PolicyView,
  policy: ResolvedPolicy,
  selected: readonly PolicyEndpoint[],
): readonly PolicyAdvice[] {
  if (!mayChooseOrder(policy)) return [];
  const said = new Set<string>();
  for (const endpoint of selected)
    for (const tier of view.tiers)
      for (const direction of DIRECTIONS) {
        const all = view.policiesOf(endpoint, tier, direction);
        const later = all.slice(all.findIndex(({ id }) => id === policy.id) + 1);
        for (const other of later)
          if (other.id.startsWith('GlobalNetworkPolicy ') && overtakes(policy, other, direction))
            said.add(describeOvertaken({ denial: other.id, direction }));
      }
  return [...said].map((message) => ({ path: 'order', message }));
}

function isOfDns(ports: VitalService['ports']): boolean {
  return ports.some(({ port }) => port === DNS_PORT);
}

/** Says which pods reach no DNS, by all policies of the view together. Any of its servers will do, but each address of a cache. */
function adviseDns(
  view: PolicyView,
  { policy: { rules, isStaged }, service }: { readonly policy: ResolvedPolicy; readonly service: VitalService },
  selected: readonly PolicyEndpoint[],
): readonly PolicyAdvice[] {
  const { name, addresses, remedy } = service;
  if (rules.egress === undefined || isStaged || addresses.size === 0) return [];
  const servers = [...addresses].map(parseAddress);
  const protocol = protocolNumber('UDP');
  const clients = selected.filter(({ node }) => isUsedOn(service, node));
  const cut = clients.filter((endpoint) => {
    const asked = endpoint.addresses.flatMap((source) =>
      servers.filter(({ family }) => family === source.family).map((destination) => ({ source, destination })),
    );
    const isAllowed = (ends: (typeof asked)[number]): boolean => {
      const packet = { ...ends, protocol, sourcePort: CLIENT_PORT, destinationPort: DNS_PORT };
      return evaluateEnd(view, { endpoint, direction: 'egress', packet }).verdict === 'allow';
    };
    const isServed = remedy === undefined ? asked.some(isAllowed) : asked.every(isAllowed);
    return endpoint.kind === 'workload' && asked.length > 0 && !isServed;
  });
  if (cut.length === 0) return [];
  const names = cut.map(({ shown }) => shown).toSorted();
  const more = names.length > SHOWN_PODS ? ` and ${String(names.length - SHOWN_PODS)} more` : '';
  const pods = `${names.slice(0, SHOWN_PODS).join(', ')}${more}`;
  const advice = remedy === undefined ? '' : `; ${remedy}`;
  return [{ path: 'egress', message: `leaves pods without ${name}, with all other policies: ${pods}${advice}` }];
}
