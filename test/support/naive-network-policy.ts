// A second, naive reading of Kubernetes NetworkPolicy: directly over its objects, and sharing no code with src/policy.
import { ownValue } from '../../src/base/own-value.ts';
import { BlockList, isIPv6 } from 'node:net';
import type { KubernetesObject } from '../../src/model/from-kubernetes/kubernetes-object.ts';
import type { KubernetesCluster } from './policy-clusters.ts';

interface Selector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}
interface Peer {
  podSelector?: Selector;
  namespaceSelector?: Selector;
  ipBlock?: { cidr: string; except?: string[] };
}
interface Port {
  protocol?: string;
  port?: number | string;
  endPort?: number;
}
interface RuleObject {
  from?: Peer[];
  to?: Peer[];
  ports?: Port[];
}
interface PolicyObjectSpec {
  podSelector: Selector;
  policyTypes?: string[];
  ingress?: RuleObject[];
  egress?: RuleObject[];
}
interface PodObject {
  metadata: KubernetesObject['metadata'];
  spec: { containers: { ports: { name: string; protocol: string; containerPort: number }[] }[] };
  status: { phase: string; podIPs: { ip: string }[] };
}

export interface NaiveTraffic {
  readonly from: string;
  readonly to: string;
  /** TCP, UDP, SCTP, or ICMP, which has no port. */
  readonly protocol: string;
  readonly port: number;
}

export function naivelyAllows(cluster: KubernetesCluster, traffic: NaiveTraffic): boolean {
  const from = podAt(cluster, traffic.from);
  const to = podAt(cluster, traffic.to);
  const leaves = from === undefined || passes(cluster, traffic, { subject: from, type: 'Egress' });
  const enters = to === undefined || passes(cluster, traffic, { subject: to, type: 'Ingress' });
  return leaves && enters;
}

function passes(
  cluster: KubernetesCluster,
  traffic: NaiveTraffic,
  { subject, type }: { subject: PodObject; type: 'Ingress' | 'Egress' },
): boolean {
  const selecting = cluster.policies.filter(({ metadata, spec }) => {
    const { podSelector, policyTypes = [], egress = [] } = spec as PolicyObjectSpec;
    const types = policyTypes.length > 0 ? policyTypes : ['Ingress', ...(egress.length > 0 ? ['Egress'] : [])];
    return (
      metadata.namespace === subject.metadata.namespace &&
      selects(podSelector, subject.metadata.labels ?? {}) &&
      types.includes(type)
    );
  });
  if (selecting.length === 0) return true;
  const other = type === 'Ingress' ? traffic.from : traffic.to;
  return selecting.some(({ metadata, spec }) => {
    const { ingress = [], egress = [] } = spec as PolicyObjectSpec;
    const rules = type === 'Ingress' ? ingress : egress;
    return rules.some(({ from = [], to = [], ports = [] }) => {
      const peers = type === 'Ingress' ? from : to;
      if (!peers.every(isSound) || !ports.every(isSoundPort)) return false;
      const isPeer =
        peers.length === 0 ||
        peers.some((peer) => isPeerAt(cluster, { peer, home: metadata.namespace, address: other }));
      return isPeer && (ports.length === 0 || ports.some((port) => isPortOf(cluster, port, traffic)));
    });
  });
}

/** A rule with a peer that says nothing known, or with an impossible range, is not used at all. */
function isSound({ podSelector, namespaceSelector, ipBlock }: Peer): boolean {
  return podSelector !== undefined || namespaceSelector !== undefined || ipBlock !== undefined;
}

function isSoundPort({ port, endPort }: Port): boolean {
  return endPort === undefined || (typeof port === 'number' && endPort >= port);
}

function isPeerAt(
  cluster: KubernetesCluster,
  { peer, home, address }: { peer: Peer; home: string | undefined; address: string },
): boolean {
  if (peer.ipBlock !== undefined) {
    const { cidr, except = [] } = peer.ipBlock;
    return isIn(cidr, address) && !except.some((net) => isIn(net, address));
  }
  const pod = podAt(cluster, address);
  if (pod === undefined) return false;
  const { namespace, labels } = pod.metadata;
  const space = cluster.namespaces.find(({ metadata }) => metadata.name === namespace);
  const isSpace =
    peer.namespaceSelector === undefined
      ? namespace === home
      : selects(peer.namespaceSelector, space?.metadata.labels ?? {});
  return isSpace && (peer.podSelector === undefined || selects(peer.podSelector, labels ?? {}));
}

function isPortOf(
  cluster: KubernetesCluster,
  { protocol = 'TCP', port, endPort }: Port,
  traffic: NaiveTraffic,
): boolean {
  if (protocol !== traffic.protocol) return false;
  if (port === undefined) return true;
  if (typeof port === 'number') return port <= traffic.port && traffic.port <= (endPort ?? port);
  const receiver = podAt(cluster, traffic.to);
  return (receiver?.spec.containers ?? [])
    .flatMap(({ ports }) => ports)
    .some((each) => each.name === port && each.protocol === protocol && each.containerPort === traffic.port);
}

function selects(
  { matchLabels = {}, matchExpressions = [] }: Selector,
  labels: Readonly<Record<string, string>>,
): boolean {
  const isEqual = Object.entries(matchLabels).every(([key, value]) => ownValue(labels, key) === value);
  return (
    isEqual &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = ownValue(labels, key);
      if (operator === 'Exists') return value !== undefined;
      if (operator === 'DoesNotExist') return value === undefined;
      const isListed = value !== undefined && values.includes(value);
      return operator === 'In' ? isListed : !isListed;
    })
  );
}

/** A pod that has finished has no address any more. */
function podAt({ pods }: KubernetesCluster, address: string): PodObject | undefined {
  return (pods as unknown as PodObject[]).find(
    ({ status: { phase, podIPs } }) =>
      phase !== 'Succeeded' && phase !== 'Failed' && podIPs.some(({ ip }) => ip === address),
  );
}

function isIn(cidr: string, address: string): boolean {
  const family = isIPv6(address) ? 'ipv6' : 'ipv4';
  const [base = '', bits] = cidr.split('/');
  if (isIPv6(base) !== isIPv6(address)) return false;
  const list = new BlockList();
  list.addSubnet(base, Number(bits), family);
  return list.check(address, family);
}
