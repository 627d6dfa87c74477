import { NetplugError } from '../../../base/errors.ts';
import { ALL_INTERFACES } from '../../../model/host-endpoint.ts';
import type { Node } from '../../../model/node.ts';
import { hostAddressesOf, tunnelAddressesOf } from '../../../model/node-addresses.ts';
import { type Address, formatAddress, sameAddress, tryParseAddress } from '../../../net/address.ts';
import { type ConnectionEnd, endAt } from '../../../policy/evaluate.ts';
import { hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../policy/resolved-policy.ts';
import { isTunnelDevice } from '../../../routing/tunnels.ts';
import type { AddressPlan, PacketTarget } from './packet-way.ts';

/** Prefix of the name of an end that is a node. */
export const HOST = 'host/';

/** One end as the user named it, with every address that a packet may carry there. */
export interface NamedEnd {
  readonly kind: 'pod' | 'host' | 'address' | 'service';
  /** `NAMESPACE/POD`, `host/NODE`, `svc/NAMESPACE/NAME` or an address. */
  readonly name: string;
  readonly node?: string;
  readonly addresses: readonly ConnectionEnd[];
  /** Facts about the end that the user should know, a sentence each. */
  readonly notes: readonly string[];
}

/** An end that packets are sent to. */
export interface NamedDestination extends NamedEnd {
  /** Returns where packets of the source end; at the addresses unless set. */
  readonly targetsFrom?: (source: ConnectionEnd) => Targets;
}

export interface Targets {
  readonly targets: readonly PacketTarget[];
  /** Set when there is none: what becomes of the packets, a sentence. */
  readonly refusal?: string;
  readonly notes: readonly string[];
}

type Cluster = Pick<AddressPlan, 'view' | 'nodes' | 'floating'>;

/** Finds the end that the text names. @throws resource/not-found, cli/usage */
export function findEnd(cluster: Cluster, text: string): NamedDestination {
  const address = tryParseAddress(text);
  if (address !== undefined) return endOfAddress(cluster, address);
  if (text.startsWith(HOST)) return endOfHost(cluster, text.slice(HOST.length));
  if (/^[^/]+\/[^/]+$/.test(text)) return endOfPod(cluster, text);
  throw new NetplugError('cli/usage', `Cannot explain "${text}": it is neither a pod, nor an address, nor a host`, {
    hint: 'Write NAMESPACE/POD, an address such as 10.0.0.7, host/NODE, or as destination svc/NAMESPACE/NAME',
  });
}

function endOfAddress(cluster: Cluster, address: Address): NamedDestination {
  const { view, nodes, floating } = cluster;
  const end = endAt(view, address);
  const name = formatAddress(address);
  if (end.pod !== undefined) {
    const { shown, node } = end.pod;
    const { hostEndpoint, notes } = crossingOfPod(cluster, node);
    return { kind: 'pod', name: shown, node, addresses: [{ ...end, hostEndpoint }], notes };
  }
  const pair = floating.find(({ external }) => sameAddress(external, address));
  const owner = pair === undefined ? undefined : endAt(view, pair.internal);
  if (owner?.pod !== undefined) return endOfFloating(cluster, { ...owner, pod: owner.pod }, address);
  const node = nodes.find((each) => nodeAddresses(each).some((own) => sameAddress(own, address)));
  if (node === undefined) {
    return { kind: 'address', name, addresses: [end], notes: [`no pod and no node has the address ${name}`] };
  }
  const host = node.metadata.name;
  const { hostEndpoint, notes } = findCrossing(view, host, [address]);
  return { kind: 'host', name: `${HOST}${host}`, node: host, addresses: [{ address, host, hostEndpoint }], notes };
}

/** Only the node of its pod translates it. As a source, it stands for the pod. */
function endOfFloating(
  cluster: Cluster,
  { address: internal, pod }: ConnectionEnd & { readonly pod: PolicyEndpoint },
  address: Address,
): NamedDestination {
  const { hostEndpoint, notes } = crossingOfPod(cluster, pod.node);
  const end = { address: internal, pod, hostEndpoint };
  const of = `the floating IP of ${pod.shown}`;
  const translation = { address, port: undefined, targetPort: undefined, node: pod.node, isMasqueraded: false, of };
  const targetsFrom = (): Targets => ({ targets: [{ end, translation }], notes: [] });
  return { kind: 'pod', name: pod.shown, node: pod.node, addresses: [end], notes, targetsFrom };
}

function endOfHost({ view, nodes }: Cluster, host: string): NamedEnd {
  const node = nodes.find(({ metadata }) => metadata.name === host);
  if (node === undefined) {
    throw new NetplugError('resource/not-found', `Cannot find node "${host}": the datastore has none of that name`, {
      hint: 'Run "netplugctl get nodes"; for a pod of the namespace "host", write its address',
    });
  }
  const addresses = hostAddressesOf(node);
  if (addresses.length === 0) {
    throw new NetplugError('resource/not-found', `Cannot find an address of node "${host}": its record has none`, {
      hint: `Run "netplugctl get node ${host} -o yaml", or write the address instead`,
    });
  }
  const ends = firstOfFamilies(addresses).map((address) => ({ address, ...findCrossing(view, host, [address]) }));
  return {
    kind: 'host',
    name: `${HOST}${host}`,
    node: host,
    addresses: ends.map(({ address, hostEndpoint }) => ({ address, host, hostEndpoint })),
    notes: [...new Set(ends.flatMap(({ notes }) => notes))],
  };
}

/** Finds the interface of its node that packets pass between a pod and other hosts. */
function crossingOfPod(
  { view, nodes }: Pick<Cluster, 'view' | 'nodes'>,
  host: string,
): ReturnType<typeof findCrossing> {
  const node = nodes.find(({ metadata }) => metadata.name === host);
  return findCrossing(view, host, node === undefined ? [] : hostAddressesOf(node));
}

function endOfPod({ view, nodes }: Cluster, name: string): NamedEnd {
  const endpoints = [...view.endpoints.values()].filter(({ kind, shown }) => kind === 'workload' && shown === name);
  const [first] = endpoints;
  if (first === undefined) throw noEndpoint(name);
  const { hostEndpoint, notes } = crossingOfPod({ view, nodes }, first.node);
  const addresses = endpoints.flatMap((pod) =>
    firstOfFamilies(pod.addresses).map((address) => ({ address, pod, hostEndpoint })),
  );
  if (addresses.length === 0) {
    throw new NetplugError('resource/not-found', `Cannot find an address of pod "${name}": it has finished`, {
      hint: 'Choose a pod that runs',
    });
  }
  return { kind: 'pod', name, node: first.node, addresses, notes };
}

/** Returns the error for a pod that the datastore does not have. */
export function noEndpoint(pod: string): NetplugError {
  return new NetplugError('resource/not-found', `Cannot find pod "${pod}": the datastore has no endpoint of it`, {
    hint: 'Run "netplugctl get workloadendpoints -A"; a pod in the network of its host has none',
  });
}

/**
 * Returns the host endpoint by which packets of the node pass, and what is not certain. Interfaces are known on the node alone:
 * an endpoint that expects an address of the node counts, then one for all interfaces.
 */
export function findCrossing(
  view: PolicyView,
  host: string,
  own: readonly Address[],
): { readonly hostEndpoint: PolicyEndpoint | undefined; readonly notes: readonly string[] } {
  const endpoints = hostEndpointsOf(view, host);
  const hasOwn = ({ addresses }: PolicyEndpoint): boolean =>
    addresses.some((address) => own.some((each) => sameAddress(each, address)));
  const named = endpoints.filter(({ interfaceName = ALL_INTERFACES }) => interfaceName !== ALL_INTERFACES);
  const hostEndpoint =
    named.find(hasOwn) ??
    endpoints.find((each) => each.interfaceName === undefined && hasOwn(each)) ??
    endpoints.find(({ interfaceName }) => interfaceName === ALL_INTERFACES);
  return {
    hostEndpoint,
    notes: named
      .filter((each) => each !== hostEndpoint && !isTunnelDevice(each.interfaceName ?? ''))
      .map(
        ({ shown, interfaceName = '' }) =>
          `packets that pass interface ${interfaceName} of node ${host} meet HostEndpoint ${shown} instead`,
      ),
  };
}

/** Returns all addresses that packets of the node itself may carry. */
export function nodeAddresses(node: Node): readonly Address[] {
  return [...hostAddressesOf(node), ...tunnelAddressesOf(node)];
}

function firstOfFamilies(addresses: readonly Address[]): readonly Address[] {
  return addresses.filter((address, index) => addresses.findIndex(({ family }) => family === address.family) === index);
}
