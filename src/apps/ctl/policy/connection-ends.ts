import { NetplugError } from '../../../base/errors.ts';
import { ALL_INTERFACES } from '../../../model/host-endpoint.ts';
import type { IpPool } from '../../../model/ip-pool.ts';
import type { Node } from '../../../model/node.ts';
import { hostAddressesOf, tunnelAddressesOf } from '../../../model/node-addresses.ts';
import { type Address, formatAddress, sameAddress, tryParseAddress } from '../../../net/address.ts';
import { type ConnectionEnd, endAt } from '../../../policy/evaluate.ts';
import { hostEndpointAt, hostEndpointsInForce, hostEndpointsOf } from '../../../policy/host-interfaces.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';
import type { PolicyEndpoint } from '../../../policy/resolved-policy.ts';
import { tunnelAddressOf } from '../../../routing/node-ends.ts';
import { isTunnelDevice } from '../../../routing/tunnels.ts';
import { tunnelTo } from '../../../routing/tunnel-to.ts';

/** Prefix of the name of an end that is a node. */
export const HOST = 'host/';

/** One end as the user named it, with every address that a packet may carry there. */
export interface NamedEnd {
  readonly kind: 'pod' | 'host' | 'address';
  /** `NAMESPACE/POD`, `host/NODE` or an address. */
  readonly name: string;
  readonly node?: string;
  readonly addresses: readonly ConnectionEnd[];
  /** Facts about the end that the user should know, a sentence each. */
  readonly notes: readonly string[];
}

interface Cluster {
  readonly view: PolicyView;
  readonly nodes: readonly Node[];
}

/** Two ends with what stands between them: in a tunnel, host endpoints of other interfaces do not see the packets. */
export interface RoutedEnds {
  readonly source: ConnectionEnd;
  readonly destination: ConnectionEnd;
  /** The device of the tunnel between them; undefined without one. */
  readonly tunnel?: string | undefined;
}

/** Puts a tunnel between two ends on different nodes when the destination is in a pool with such a mode. */
export function routeBetween(
  { view, nodes, pools }: Cluster & { readonly pools: readonly IpPool[] },
  source: ConnectionEnd,
  destination: ConnectionEnd,
): RoutedEnds {
  const [from, to] = [source, destination].map((end) =>
    nodes.find(({ metadata }) => metadata.name === (end.pod?.node ?? end.host)),
  );
  if (from === undefined || to === undefined || from === to) return { source, destination };
  const tunnel = tunnelTo(destination.address, { from, to, pools });
  if (tunnel === undefined) return { source, destination };
  // An endpoint that expects the address of a tunnel does not decide there.
  const at = ({ metadata }: Node): PolicyEndpoint | undefined =>
    hostEndpointAt(hostEndpointsInForce(hostEndpointsOf(view, metadata.name), []), tunnel);
  const own = source.pod === undefined ? tunnelAddressOf(from, tunnel) : undefined;
  return {
    source: { ...source, address: own ?? source.address, hostEndpoint: at(from) },
    destination: { ...destination, hostEndpoint: at(to) },
    tunnel,
  };
}

/** Finds the end that the text names. @throws resource/not-found, cli/usage */
export function findEnd(cluster: Cluster, text: string): NamedEnd {
  const address = tryParseAddress(text);
  if (address !== undefined) return endOfAddress(cluster, address);
  if (text.startsWith(HOST)) return endOfHost(cluster, text.slice(HOST.length));
  if (/^[^/]+\/[^/]+$/.test(text)) return endOfPod(cluster, text);
  throw new NetplugError('cli/usage', `Cannot explain "${text}": it is neither a pod, nor an address, nor a host`, {
    hint: 'Write NAMESPACE/POD, an address such as 10.0.0.7, or host/NODE',
  });
}

function endOfAddress({ view, nodes }: Cluster, address: Address): NamedEnd {
  const end = endAt(view, address);
  const name = formatAddress(address);
  if (end.pod !== undefined) {
    const { shown, node } = end.pod;
    const { hostEndpoint, notes } = crossingOfPod({ view, nodes }, node);
    return { kind: 'pod', name: shown, node, addresses: [{ ...end, hostEndpoint }], notes };
  }
  const node = nodes.find((each) => nodeAddresses(each).some((own) => sameAddress(own, address)));
  if (node === undefined) {
    return { kind: 'address', name, addresses: [end], notes: [`no pod and no node has the address ${name}`] };
  }
  const host = node.metadata.name;
  const { hostEndpoint, notes } = findCrossing(view, host, [address]);
  return { kind: 'host', name: `${HOST}${host}`, node: host, addresses: [{ address, host, hostEndpoint }], notes };
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
  const tunnels = tunnelAddressesOf(node).map(formatAddress);
  const ends = firstOfFamilies(addresses).map((address) => ({ address, ...findCrossing(view, host, [address]) }));
  return {
    kind: 'host',
    name: `${HOST}${host}`,
    node: host,
    addresses: ends.map(({ address, hostEndpoint }) => ({ address, host, hostEndpoint })),
    notes: [
      ...new Set(ends.flatMap(({ notes }) => notes)),
      ...(tunnels.length === 0
        ? []
        : [
            `packets that node ${host} sends through a tunnel come from ${tunnels.join(' and ')}, which policies take for the node`,
          ]),
    ],
  };
}

/** Finds the interface of its node that packets pass between a pod and other hosts. */
function crossingOfPod({ view, nodes }: Cluster, host: string): ReturnType<typeof findCrossing> {
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
