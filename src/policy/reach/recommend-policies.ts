import { counted } from '../../base/counted.ts';
import { ownValue } from '../../base/own-value.ts';
import { NAMESPACE_NAME_LABEL } from '../../model/policy-names.ts';
import { hasPorts, isNamedProtocol, protocolName } from '../../model/protocol.ts';
import type { ShownFlow } from '../../model/shown-flows.ts';
import { type Address, bitsOf, formatAddress, tryParseAddress } from '../../net/address.ts';
import { endAt } from '../evaluate.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyEndpoint } from '../resolved-policy.ts';
import { type OwnPolicy, ownPolicy } from './own-policy.ts';
import { workloadTextOf } from './group-peers.ts';
import { judgeEnd } from './judge-end.ts';
import { isDns } from './vital-services.ts';
import { type Workload, workloadOf } from './workload-name.ts';

const DNS_PORT = 53;
const LONGEST_NAME = 63;

interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
}

export interface AllowedPeer {
  readonly namespaceSelector?: LabelSelector;
  readonly podSelector?: LabelSelector;
  readonly ipBlock?: { readonly cidr: string };
}

export interface AllowedPort {
  /** Name, or IANA number of a protocol without one; Kubernetes accepts only protocols with ports. */
  readonly protocol: string | number;
  readonly port?: number | string;
  readonly icmpType?: number;
}

/** A Kubernetes NetworkPolicy for both directions of one workload. */
export interface RecommendedPolicy {
  readonly apiVersion: 'networking.k8s.io/v1';
  readonly kind: 'NetworkPolicy';
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly podSelector: LabelSelector;
    readonly policyTypes: readonly ['Ingress', 'Egress'];
    readonly ingress: readonly { readonly from: readonly AllowedPeer[]; readonly ports: readonly AllowedPort[] }[];
    readonly egress: readonly { readonly to?: readonly AllowedPeer[]; readonly ports: readonly AllowedPort[] }[];
  };
}

/** `KubernetesNetworkPolicy`, or a kind of netplug. */
export const RECOMMENDED_KINDS = ['KubernetesNetworkPolicy', 'NetworkPolicy', 'GlobalNetworkPolicy'] as const;
export type RecommendedKind = (typeof RECOMMENDED_KINDS)[number];

export interface Recommendation {
  readonly policies: readonly (RecommendedPolicy | OwnPolicy)[];
  /** Notes on what the policies allow beyond the flows, and what they do not cover, a sentence each. */
  readonly notes: readonly string[];
}

/** The peers of one direction of a workload, each with its ports, both by their JSON. */
type Peers = Map<string, Map<string, AllowedPort>>;

interface Draft {
  readonly workload: Workload;
  readonly ingress: Peers;
  readonly egress: Peers;
}

/**
 * Returns a policy for each workload of a namespace that allows the flows, from and to all pods of the same workloads, and DNS.
 * Workloads without a flow are isolated.
 */
export function recommendPolicies(
  view: PolicyView,
  {
    namespace,
    flows,
    kind = 'KubernetesNetworkPolicy',
  }: { readonly namespace: string; readonly flows: readonly ShownFlow[]; readonly kind?: RecommendedKind },
): Recommendation {
  const all = [...view.endpoints.values()].filter(({ kind }) => kind === 'workload');
  const pods = all.filter((pod) => pod.namespace === namespace);
  const notes = new Set<string>();
  const drafts = new Map<string, Draft>();
  for (const pod of pods) {
    const workload = workloadOf(pod);
    if (Object.keys(workload.labels).length > 0) {
      drafts.set(workloadTextOf(pod), { workload, ingress: new Map(), egress: new Map() });
    } else notes.add(`${pod.shown} has no labels that a policy could select it by: it stays open`);
  }
  const byWorkload = Map.groupBy(all, workloadTextOf);
  let skipped = 0;
  for (const flow of flows) {
    if (flow.verdict !== 'allowed') continue;
    const [source, destination] = [endOf(view, flow.source), endOf(view, flow.destination)];
    if (source === undefined || destination === undefined) {
      skipped += 1;
      continue;
    }
    if (source.pod?.namespace !== namespace && destination.pod?.namespace !== namespace) continue;
    // A node always reaches its own pods.
    if (flow.source.host !== undefined && flow.source.host === destination.pod?.node) continue;
    const { protocol, port } = flow;
    const isPlain = port !== undefined && hasPorts(protocol);
    if (!isPlain && kind === 'KubernetesNetworkPolicy') {
      notes.add(
        `${protocolName(protocol)} from ${shown(source)} to ${shown(destination)} is not allowed: Kubernetes policies cannot name it`,
      );
      continue;
    }
    const { pod } = destination;
    if (pod?.namespace === namespace && asksSidecar(view, pod, flow))
      notes.add(
        `of requests from ${shown(source)} to ${shown(destination)}, present rules with http allow some alone: the recommended policies allow all of them`,
      );
    const servers = destination.pod === undefined ? [] : (byWorkload.get(workloadTextOf(destination.pod)) ?? []);
    const allowed: AllowedPort = isPlain
      ? { protocol: protocolName(protocol), port: portName(servers, protocol, port) ?? port }
      : withoutPort(flow);
    for (const [own, peer, direction] of [
      [source, destination, 'egress'],
      [destination, source, 'ingress'],
    ] as const) {
      const draft = own.pod?.namespace === namespace ? drafts.get(workloadTextOf(own.pod)) : undefined;
      if (draft === undefined) continue;
      if (peer.pod !== undefined && Object.keys(workloadOf(peer.pod).labels).length === 0) {
        notes.add(`${peer.pod.shown} has no labels: all pods of its namespace are allowed in its place`);
      }
      const key = JSON.stringify(peerOf(peer, namespace));
      const ports = draft[direction].get(key) ?? new Map<string, AllowedPort>();
      draft[direction].set(key, ports.set(JSON.stringify(allowed), allowed));
    }
  }
  if (skipped > 0)
    notes.add(`${counted(skipped, 'flow')} of pods that are gone ${skipped === 1 ? 'is' : 'are'} not considered`);
  const dns = dnsPeers(all);
  const ordered = [...drafts.values()].toSorted((a, b) => (a.workload.name < b.workload.name ? -1 : 1));
  for (const { workload } of ordered) {
    const members = byWorkload.get(JSON.stringify([namespace, workload.name])) ?? [];
    if (members.length > 1)
      notes.add(`${workload.name}: what one of ${counted(members.length, 'pod')} was seen to do is allowed to all`);
  }
  for (const { workload } of ordered) {
    const others = pods.filter((pod) => workloadOf(pod).name !== workload.name && hasLabels(pod, workload));
    if (others.length > 0)
      notes.add(`${workload.name}: the labels also select ${others.map((pod) => pod.shown).join(', ')}`);
  }
  const names = new Set<string>();
  const policies = ordered.map((draft) => policyOf(draft, { namespace, dns, names }));
  return {
    policies: kind === 'KubernetesNetworkPolicy' ? policies : policies.map((policy) => ownPolicy(policy, kind)),
    notes: [...notes],
  };
}

function asksSidecar(
  view: PolicyView,
  endpoint: PolicyEndpoint,
  { source, destination, protocol, port }: ShownFlow,
): boolean {
  const [from, to] = [tryParseAddress(source.address), tryParseAddress(destination.address)];
  if (from === undefined || to === undefined) return false;
  const packet = { source: from, destination: to, protocol, destinationPort: port };
  return judgeEnd(view, { endpoint, direction: 'ingress', packet }).asks !== undefined;
}

function withoutPort({ protocol, icmp }: ShownFlow): AllowedPort {
  const name = protocolName(protocol);
  return {
    protocol: isNamedProtocol(protocol) ? name : protocol,
    ...(icmp === undefined ? {} : { icmpType: icmp.type }),
  };
}

function hasLabels(pod: PolicyEndpoint, { labels }: Workload): boolean {
  return Object.entries(labels).every(([label, value]) => ownValue(pod.labels, label) === value);
}

interface FlowEnd {
  readonly address: Address;
  readonly pod: PolicyEndpoint | undefined;
}

/** Returns undefined for a pod that has gone since. */
function endOf(view: PolicyView, { address: text, pod: name }: ShownFlow['source']): FlowEnd | undefined {
  const address = tryParseAddress(text);
  if (address === undefined) return undefined;
  const { pod } = endAt(view, address);
  return name === pod?.shown ? { address, pod } : undefined;
}

function shown({ address, pod }: FlowEnd): string {
  return pod === undefined ? formatAddress(address) : workloadOf(pod).name;
}

/** Returns the name that every pod of the workload gives to the port. */
function portName(servers: readonly PolicyEndpoint[], protocol: number, port: number): string | undefined {
  const [first] = servers;
  const names = (first?.ports ?? []).filter((each) => each.protocol === protocol && each.port === port);
  return names.find(({ name }) =>
    servers.every(({ ports }) => {
      const own = ports.filter((each) => each.name === name && each.protocol === protocol);
      return own.length === 1 && own[0]?.port === port;
    }),
  )?.name;
}

function peerOf({ address, pod }: FlowEnd, namespace: string): AllowedPeer {
  if (pod === undefined) return { ipBlock: { cidr: `${formatAddress(address)}/${String(bitsOf(address.family))}` } };
  const { labels } = workloadOf(pod);
  const podSelector = Object.keys(labels).length === 0 ? {} : { matchLabels: labels };
  if (pod.namespace === namespace) return { podSelector };
  return { namespaceSelector: { matchLabels: { [NAMESPACE_NAME_LABEL]: pod.namespace ?? '' } }, podSelector };
}

/** Returns the workloads that serve DNS; none when they are not pods, which means any address. */
function dnsPeers(pods: readonly PolicyEndpoint[]): readonly AllowedPeer[] {
  const peers = pods.filter(isDns).map((pod) => {
    const { namespace, labels } = workloadOf(pod);
    return JSON.stringify({
      namespaceSelector: { matchLabels: { [NAMESPACE_NAME_LABEL]: namespace } },
      podSelector: { matchLabels: labels },
    });
  });
  return [...new Set(peers)].toSorted().map((text) => JSON.parse(text) as AllowedPeer);
}

function policyOf(
  { workload, ingress, egress }: Draft,
  {
    namespace,
    dns,
    names,
  }: { readonly namespace: string; readonly dns: readonly AllowedPeer[]; readonly names: Set<string> },
): RecommendedPolicy {
  const dnsRule = {
    ...(dns.length === 0 ? {} : { to: dns }),
    ports: ['UDP', 'TCP'].map((protocol) => ({ protocol, port: DNS_PORT })),
  };
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: freeName(workload, names), namespace },
    spec: {
      podSelector: { matchLabels: workload.labels },
      policyTypes: ['Ingress', 'Egress'],
      ingress: rulesOf(ingress).map(({ peers, ports }) => ({ from: peers, ports })),
      egress: [dnsRule, ...rulesOf(egress).map(({ peers, ports }) => ({ to: peers, ports }))],
    },
  };
}

/** Puts peers with equal ports into one rule. */
function rulesOf(
  found: Peers,
): readonly { readonly peers: readonly AllowedPeer[]; readonly ports: readonly AllowedPort[] }[] {
  const byPorts = Map.groupBy(found, ([, ports]) => JSON.stringify([...ports.keys()].toSorted()));
  return [...byPorts]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, same]) => ({
      peers: same
        .map(([peer]) => peer)
        .toSorted()
        .map((text) => JSON.parse(text) as AllowedPeer),
      ports: [...(same[0]?.[1] ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, port]) => port),
    }));
}

/** Returns a name of the workload's labels that Kubernetes accepts and no other policy has. */
function freeName({ labels }: Workload, names: Set<string>): string {
  const text = Object.values(labels)
    .join('-')
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-');
  const trimmed = text.slice(0, LONGEST_NAME - 4).replaceAll(/^-+|-+$/g, '');
  const base = trimmed === '' ? 'workload' : trimmed;
  let name = base;
  for (let number = 2; names.has(name); number += 1) name = `${base}-${String(number)}`;
  names.add(name);
  return name;
}
