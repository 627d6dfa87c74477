import { type Cidr, formatCidr, hostCidr } from '../../net/cidr.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PeerMatch, PeerSelector, PolicyRule } from '../resolved-policy.ts';

/** Something in a rule that an address satisfies or not: networks, a selector, or the endpoints of a service. */
export interface Term {
  /** Equal keys mean the same in one view. */
  readonly key: string;
  netsIn(view: PolicyView): readonly TermNet[];
}

/** A network whose addresses satisfy a term. */
export interface TermNet {
  readonly net: Cidr;
  /** Tells apart how they satisfy it: protocol and port of an endpoint of a service. */
  readonly as?: string;
}

/** Properties of packets that a list of rules asks for. */
export interface RuleFacts {
  readonly terms: readonly Term[];
  /** IANA numbers. */
  readonly protocols: ReadonlySet<number>;
  /** Where verdicts may change as the destination port grows: first ports of ranges, and those after their last. */
  readonly portCuts: ReadonlySet<number>;
  /** Some rule names ports of the destination. */
  readonly hasNamedPorts: boolean;
  readonly services: readonly { readonly namespace: string; readonly name: string }[];
}

export function factsOf(rules: Iterable<PolicyRule>): RuleFacts {
  const terms = new Map<string, Term>();
  const protocols = new Set<number>();
  const portCuts = new Set<number>();
  const services = new Map<string, { readonly namespace: string; readonly name: string }>();
  let hasNamedPorts = false;
  for (const { protocol, notProtocol, source, destination } of rules) {
    for (const number of [protocol, notProtocol]) if (number !== undefined) protocols.add(number);
    for (const match of [destination.ports, destination.notPorts]) {
      hasNamedPorts ||= (match?.names.length ?? 0) > 0;
      for (const { first, last } of match?.ranges ?? []) portCuts.add(first).add(last + 1);
    }
    for (const peer of [source, destination]) {
      for (const term of termsOf(peer)) terms.set(term.key, term);
      if (peer.service !== undefined) services.set(`${peer.service.namespace}/${peer.service.name}`, peer.service);
    }
  }
  return { terms: [...terms.values()], protocols, portCuts, hasNamedPorts, services: [...services.values()] };
}

function termsOf({ nets, notNets, selector, notSelector, service }: PeerMatch): readonly Term[] {
  return [
    ...[...(nets ?? []), ...(notNets ?? [])].map(netTerm),
    ...[selector, notSelector].flatMap((each) => (each === undefined ? [] : [selectorTerm(each)])),
    ...(service === undefined ? [] : [serviceTerm(service)]),
  ];
}

function netTerm(net: Cidr): Term {
  return {
    key: formatCidr(net),
    netsIn: ({ nodes }) => [net, ...nodes.standInsFor([net])].map((each) => ({ net: each })),
  };
}

function selectorTerm(selector: PeerSelector): Term {
  return { key: `selector ${selector.id}`, netsIn: (view) => view.membersOf(selector).map((net) => ({ net })) };
}

function serviceTerm({ namespace, name }: { readonly namespace: string; readonly name: string }): Term {
  return {
    key: `service ${namespace}/${name}`,
    netsIn: (view) => [
      ...view.services.addressesOf(namespace, name).map((address) => ({ net: hostCidr(address) })),
      ...view.services
        .portsOf(namespace, name)
        .map(({ address, protocol, port }) => ({ net: hostCidr(address), as: `${String(protocol)}/${String(port)}` })),
    ],
  };
}
