import { type Address, addressKey, formatAddress } from '../../net/address.ts';
import { formatCidr, hostCidr } from '../../net/cidr.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyEndpoint } from '../resolved-policy.ts';
import { apiServers } from '../api-servers.ts';
import type { NamedAddress } from './peer-classes.ts';

/** Something that a cluster needs to work. */
export interface VitalService {
  /** Name as a text such as `DNS`. */
  readonly name: string;
  readonly addresses: ReadonlySet<string>;
  /** Protocol and port that it serves; none for all of its traffic. */
  readonly ports: readonly { readonly protocol: number; readonly port: number }[];
  /** Traffic that is served: connections from pods to it, or its own connections in both directions. */
  readonly protects: 'clients' | 'itself';
  /** Nodes whose pods use it; all unless set. */
  readonly nodes?: ReadonlySet<string>;
  /** What to do about clients that are cut off. */
  readonly remedy?: string;
}

/** An address at which the DNS cache of a node answers the pods of that node. */
export interface DnsCache {
  readonly node: string;
  readonly address: Address;
  /** Its pod is; one that is not may answer again at any time. */
  readonly isReady: boolean;
}

/** Selects the pods of the DNS cache of nodes. */
export const DNS_CACHE_LABEL = 'k8s-app=node-local-dns';
const DNS_CACHE = 'the DNS cache of their node';

/** Namespaces of the parts of a cluster itself. */
export const SYSTEM_NAMESPACES: readonly string[] = ['kube-system', 'netplug-system'];
const DNS_SERVICES = [
  ['kube-system', 'kube-dns'],
  ['kube-system', 'coredns'],
] as const;
const DNS_APPS: readonly (string | undefined)[] = ['kube-dns', 'coredns'];
const DNS_PORTS = [17, 6].map((protocol) => ({ protocol, port: 53 }));
const API_SERVER = 'the API server';

/** Returns the addresses of the API server, under its name. */
export function apiServerAddresses(view: PolicyView): readonly NamedAddress[] {
  return apiServers(view).map(({ address }) => ({ kind: 'service', name: API_SERVER, address }));
}

/** Returns the addresses of the DNS caches of nodes, under their name. */
export function dnsCacheAddresses(caches: readonly DnsCache[]): readonly NamedAddress[] {
  return distinctAddresses(caches).map((address) => ({ kind: 'service', name: DNS_CACHE, address }));
}

/** Returns the caches that answer pods before DNS does, one for all nodes with the same addresses. Packets to them are those of no pod. */
function dnsCaches(caches: readonly DnsCache[]): readonly VitalService[] {
  const byNode = [...Map.groupBy(caches, ({ node }) => node)];
  const alike = Map.groupBy(byNode, ([, own]) => [...textsOf(distinctAddresses(own))].toSorted().join());
  return [...alike.values()].map((group): VitalService => {
    const addresses = distinctAddresses(group.flatMap(([, own]) => own));
    const nets = addresses.map((address) => formatCidr(hostCidr(address))).join(' and ');
    const remedy = `the cache answers before DNS pods do, so allow egress to ${nets}, UDP and TCP port 53, as well`;
    const nodes = new Set(group.map(([node]) => node));
    return { name: DNS_CACHE, addresses: textsOf(addresses), ports: DNS_PORTS, protects: 'clients', nodes, remedy };
  });
}

function distinctAddresses(caches: readonly DnsCache[]): readonly Address[] {
  return [...new Map(caches.map(({ address }) => [addressKey(address), address])).values()];
}

/** Reports whether pods of the node, or the node itself, use the service. */
export function isUsedOn({ nodes }: VitalService, node: string): boolean {
  return nodes === undefined || nodes.has(node);
}

/** Returns DNS, the DNS caches of nodes and the API server, as far as the records of services and labels of pods show them, and system namespaces. */
export function vitalServices(view: PolicyView, caches: readonly DnsCache[] = []): readonly VitalService[] {
  const pods = [...view.endpoints.values()].filter(({ kind }) => kind === 'workload');
  const dns = [
    ...DNS_SERVICES.flatMap(([namespace, name]) => view.services.addressesOf(namespace, name)),
    ...pods.filter(isDns).flatMap(({ addresses }) => addresses),
  ];
  const api = apiServers(view);
  return [
    { name: 'DNS', addresses: textsOf(dns), ports: DNS_PORTS, protects: 'clients' },
    ...dnsCaches(caches),
    { name: API_SERVER, addresses: textsOf(api.map(({ address }) => address)), ports: api, protects: 'clients' },
    ...SYSTEM_NAMESPACES.map((name): VitalService => {
      const own = pods.filter(({ namespace }) => namespace === name).flatMap(({ addresses }) => addresses);
      return { name: `the namespace ${name}`, addresses: textsOf(own), ports: [], protects: 'itself' };
    }),
  ];
}

/** Reports whether the pod serves DNS to the cluster, by its labels and namespace. */
export function isDns({ namespace, labels }: PolicyEndpoint): boolean {
  if (namespace === undefined || !SYSTEM_NAMESPACES.includes(namespace)) return false;
  return DNS_APPS.includes(labels['k8s-app']) || DNS_APPS.includes(labels['app.kubernetes.io/name']);
}

function textsOf(addresses: readonly Address[]): ReadonlySet<string> {
  return new Set(addresses.map(formatAddress));
}
