import { getOrInsert } from '../../base/get-or-insert.ts';
import { type Address, bitsOf, FAMILIES, type Family, formatAddress } from '../../net/address.ts';
import type { Cidr } from '../../net/cidr.ts';
import { openMatches, type OpenPorts } from '../open-ports.ts';
import type { PolicyView } from '../policy-view.ts';
import type {
  PolicyDirection,
  PolicyEndpoint,
  PolicyRule,
  ResolvedPolicy,
  ResolvedProfile,
} from '../resolved-policy.ts';
import { AddressIndex } from '../../net/address-index.ts';
import { describeRegion, outsideRegions } from './outside-regions.ts';
import { factsOf, type RuleFacts, type TermNet } from './rule-terms.ts';

/** An address that is no pod's and is known by a name: that of a node, or of a service that is no pod. */
export interface NamedAddress {
  readonly kind: 'node' | 'service';
  readonly name: string;
  readonly address: Address;
  /** Returns the host endpoint that packets of the address pass; undefined without one. */
  readonly hostEnd?: (view: PolicyView) => HostEnd | undefined;
}

/** A host endpoint, and what none of its policies closes. */
export interface HostEnd {
  readonly endpoint: PolicyEndpoint;
  readonly open: OpenPorts;
}

/** An end of connections: a pod, the processes of a node, a service, or other addresses. */
export type Peer =
  | { readonly kind: 'pod'; readonly endpoint: PolicyEndpoint }
  | NamedAddress
  | { readonly kind: 'net'; readonly text: string };

/** Peers that policies of all views treat alike. */
export interface PeerClass {
  readonly number: number;
  readonly members: readonly Peer[];
  /** The addresses of the first member. */
  readonly addresses: Readonly<Partial<Record<Family, Address>>>;
  /** The rules that apply to it, for each view; undefined for ends without policies in any view, or in one. */
  readonly subject: readonly (Readonly<Record<PolicyDirection, Subject>> | undefined)[] | undefined;
  /** Nodes of its pods and host endpoints. */
  readonly nodes: ReadonlySet<string>;
  /** By view: keys of the terms that its addresses satisfy, after the family. */
  readonly terms: readonly ReadonlySet<string>[];
}

/** Rules that an endpoint applies in one direction. */
export interface Subject {
  readonly endpoint: PolicyEndpoint;
  /** Ports of a host endpoint that no policy closes. */
  readonly open?: OpenPorts;
  readonly facts: RuleFacts;
  /** Its terms, as they are in `PeerClass.terms`. */
  readonly termKeys: Readonly<Record<Family, readonly string[]>>;
  /** Equal keys mean equal rules. */
  readonly key: string;
}

type KnownSubject = Pick<Subject, 'facts' | 'termKeys'>;

interface Candidate {
  readonly peer: Peer;
  readonly addresses: Readonly<Partial<Record<Family, Address>>>;
  readonly subject: PeerClass['subject'];
  readonly terms: readonly Set<string>[];
}

/** Groups pods, named and other addresses so that the members of a class have the same verdicts in every view. */
export function peerClasses(views: readonly PolicyView[], named: readonly NamedAddress[]): readonly PeerClass[] {
  const rules = new RuleKeys(views);
  const pods = [...(views[0]?.endpoints.values() ?? [])].flatMap((endpoint): Candidate[] => {
    const addresses = firstOfFamilies(endpoint.addresses);
    const present = views.map((view) => view.endpoints.get(endpoint.key));
    if (endpoint.kind !== 'workload' || Object.keys(addresses).length === 0) return [];
    const subject = present.map((each, index) => rules.subjectOf(index, each ?? endpoint));
    return [{ peer: { kind: 'pod', endpoint }, addresses, subject, terms: views.map(() => new Set<string>()) }];
  });
  const isPod = new Set(pods.flatMap(({ addresses }) => Object.values(addresses).map(formatAddress)));
  const others = new Map<string, NamedAddress>();
  for (const each of named) {
    const text = formatAddress(each.address);
    // An API server may have the address of its node.
    others.set(text, { ...others.get(text), ...each });
  }
  const hosts = [...others].map(([text, peer]) => {
    const subject = views.map((view, index) => {
      const host = peer.hostEnd?.(view);
      return host === undefined ? undefined : rules.subjectOf(index, host.endpoint, host.open);
    });
    return { text, peer, subject: subject.some((each) => each !== undefined) ? subject : undefined };
  });
  const terms = rules.terms();
  const nets = terms.flatMap(({ nets: each }) => each.map(({ net }) => net)).filter((net) => !isHostOf(net, isPod));
  const taken = new Set([...isPod, ...others.keys()]);
  const families = new Set([
    ...pods.flatMap(({ addresses }) => FAMILIES.filter((family) => addresses[family] !== undefined)),
    ...hosts.flatMap(({ peer, subject }) => (subject === undefined ? [] : [peer.address.family])),
  ]);
  const regions = outsideRegions(nets, (address) => taken.has(formatAddress(address)));
  const outside = [
    ...hosts.flatMap(({ text, peer, subject }) => (isPod.has(text) ? [] : [{ peer, address: peer.address, subject }])),
    ...regions.map((region) => {
      const peer = { kind: 'net', text: describeRegion(region) } as const;
      return { peer, address: region.address, subject: undefined };
    }),
  ]
    .filter(({ address }) => families.has(address.family))
    .map(({ peer, address, subject }): Candidate => ({
      peer,
      addresses: { [address.family]: address },
      subject,
      terms: views.map(() => new Set<string>()),
    }));
  const candidates = [...pods, ...outside];
  const index = new AddressIndex(
    candidates.flatMap((entry) => Object.values(entry.addresses).map((address) => ({ address, entry }))),
  );
  for (const { view, key, nets: each } of terms) {
    for (const { net, as } of each) {
      const texts = [key, ...(as === undefined ? [] : [`${key} ${as}`])].map((text) =>
        termOfFamily(net.base.family, text),
      );
      for (const { terms: own } of index.within(net)) for (const text of texts) own[view]?.add(text);
    }
  }
  const classes = Map.groupBy(candidates, signatureOf);
  return [...classes.values()].flatMap((members, number): PeerClass[] => {
    const [first] = members;
    if (first === undefined) return [];
    const { addresses, subject, terms: own } = first;
    return [
      {
        number,
        members: members.map(({ peer }) => peer),
        addresses,
        subject,
        nodes: new Set(members.flatMap(nodesOf)),
        terms: own,
      },
    ];
  });
}

function nodesOf({ subject }: Candidate): readonly string[] {
  return (subject ?? []).flatMap((each) => each?.ingress.endpoint.node ?? []);
}

function termOfFamily(family: Family, key: string): string {
  return `${String(family)} ${key}`;
}

function isHostOf({ base, prefixBits }: Cidr, addresses: ReadonlySet<string>): boolean {
  return prefixBits === bitsOf(base.family) && addresses.has(formatAddress(base));
}

function firstOfFamilies(addresses: readonly Address[]): Readonly<Partial<Record<Family, Address>>> {
  const found = FAMILIES.flatMap((family) => {
    const address = addresses.find((each) => each.family === family);
    return address === undefined ? [] : [[family, address] as const];
  });
  return Object.fromEntries(found);
}

function signatureOf({ peer, addresses, subject, terms }: Candidate): string {
  return JSON.stringify([
    Object.keys(addresses),
    subject?.map((each) => [each?.ingress.key, each?.egress.key]),
    terms.map((own) => [...own].toSorted()),
    portsOf(peer),
  ]);
}

function portsOf(peer: Peer): string {
  if (peer.kind !== 'pod') return '';
  const texts = peer.endpoint.ports.map(({ name, protocol, port }) => `${String(protocol)} ${String(port)} ${name}`);
  return texts.toSorted().join();
}

/** The rules of each view by what they are made of, so that endpoints with equal rules are recognized. */
class RuleKeys {
  readonly #views: readonly PolicyView[];
  readonly #policies = new Map<ResolvedPolicy, string>();
  readonly #profiles = new Map<ResolvedProfile, Record<PolicyDirection, string>>();
  readonly #subjects: readonly Map<string, KnownSubject>[];

  constructor(views: readonly PolicyView[]) {
    this.#views = views;
    this.#subjects = views.map(() => new Map<string, KnownSubject>());
  }

  /** `open` is for host endpoints. */
  subjectOf(index: number, endpoint: PolicyEndpoint, open?: OpenPorts): Readonly<Record<PolicyDirection, Subject>> {
    const end = { endpoint, ...(open === undefined ? {} : { open }) };
    return { ingress: this.#subject(index, end, 'ingress'), egress: this.#subject(index, end, 'egress') };
  }

  /** Returns the terms of all rules that apply to an endpoint, with their networks in each view. */
  terms(): readonly { readonly view: number; readonly key: string; readonly nets: readonly TermNet[] }[] {
    return this.#views.flatMap((view, index) => {
      const facts = [...(this.#subjects[index]?.values() ?? [])].flatMap((subject) => subject.facts.terms);
      const distinct = new Map(facts.map((term) => [term.key, term]));
      return [...distinct.values()].map((term) => ({ view: index, key: term.key, nets: term.netsIn(view) }));
    });
  }

  #subject(index: number, end: Pick<Subject, 'endpoint' | 'open'>, direction: PolicyDirection): Subject {
    const { endpoint, open } = end;
    const view = this.#views[index];
    if (view === undefined) throw new Error(`No view ${String(index)}`);
    const policies = view.tiers.flatMap((tier) => view.policiesOf(endpoint, tier, direction));
    const profiles = endpoint.profiles.flatMap((name) => view.profile(name) ?? []);
    const key = JSON.stringify([
      direction,
      policies.map((policy) => this.#policyKey(policy)),
      profiles.map((profile) => this.#profileKey(profile)[direction]).filter((text) => text !== '[]'),
      ...(open === undefined ? [] : [textOf(open)]),
    ]);
    const subjects = this.#subjects[index] ?? new Map<string, KnownSubject>();
    const known = getOrInsert(subjects, key, () => {
      const rules = [...policies, ...profiles].flatMap((each): readonly PolicyRule[] => each.rules[direction] ?? []);
      const facts = factsOf([...rules, ...(open === undefined ? [] : openRules(open, direction))]);
      const keysOf = (family: Family): string[] => facts.terms.map((term) => termOfFamily(family, term.key));
      return { facts, termKeys: { 4: keysOf(4), 6: keysOf(6) } };
    });
    return { ...end, key, ...known };
  }

  /** Policies of one id with equal rules have equal keys, also in different views. */
  #policyKey(policy: ResolvedPolicy): string {
    return getOrInsert(this.#policies, policy, ({ id, stage, isStaged, rules }) =>
      textOf([id, stage, isStaged, rules]),
    );
  }

  #profileKey(profile: ResolvedProfile): Record<PolicyDirection, string> {
    return getOrInsert(this.#profiles, profile, ({ rules }) => ({
      ingress: textOf(rules.ingress),
      egress: textOf(rules.egress),
    }));
  }
}

/** Returns what stays open as rules that ask the same of packets. */
function openRules(open: OpenPorts, direction: PolicyDirection): readonly PolicyRule[] {
  return openMatches(open, direction, 'local').map(({ protocol, port, net }) => {
    const peer = net === undefined ? {} : { nets: [net] };
    const ports = port === undefined ? {} : { ports: { ranges: [{ first: port, last: port }], names: [] } };
    const isIngress = direction === 'ingress';
    return {
      action: 'Allow',
      protocol,
      source: isIngress ? peer : {},
      destination: isIngress ? ports : { ...peer, ...ports },
      index: 0,
    };
  });
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each));
}
