import { NetplugError } from '../../../base/errors.ts';
import type { Node } from '../../../model/node.ts';
import { type Address, formatAddress, sameAddress, tryParseAddress } from '../../../net/address.ts';
import { tryReadCidr } from '../../../net/cidr.ts';
import { type ConnectionEnd, endAt } from '../../../policy/evaluate.ts';
import type { PolicyView } from '../../../policy/policy-view.ts';

const HOST = 'host/';

/** One end as the user named it, with every address that a packet may carry there. */
export interface NamedEnd {
  readonly kind: 'pod' | 'host' | 'address';
  /** `NAMESPACE/POD`, `host/NODE` or an address. */
  readonly name: string;
  readonly node?: string;
  readonly addresses: readonly ConnectionEnd[];
  /** What the user should know about it, a sentence each. */
  readonly notes: readonly string[];
}

interface Cluster {
  readonly view: PolicyView;
  readonly nodes: readonly Node[];
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
    return { kind: 'pod', name: end.pod.shown, node: end.pod.node, addresses: [end], notes: [] };
  }
  const node = nodes.find((each) => nodeAddresses(each).some((own) => sameAddress(own, address)));
  if (node === undefined) {
    return { kind: 'address', name, addresses: [end], notes: [`no pod and no node has the address ${name}`] };
  }
  const host = node.metadata.name;
  return {
    kind: 'host',
    name: `${HOST}${host}`,
    node: host,
    addresses: [{ address, host }],
    notes: hostNotes(view, host),
  };
}

function endOfHost({ view, nodes }: Cluster, host: string): NamedEnd {
  const node = nodes.find(({ metadata }) => metadata.name === host);
  if (node === undefined) {
    throw new NetplugError('resource/not-found', `Cannot find node "${host}": the datastore has none of that name`, {
      hint: 'Run "netplugctl get nodes"; for a pod of the namespace "host", write its address',
    });
  }
  const addresses = hostAddresses(node);
  if (addresses.length === 0) {
    throw new NetplugError('resource/not-found', `Cannot find an address of node "${host}": its record has none`, {
      hint: `Run "netplugctl get node ${host} -o yaml", or write the address instead`,
    });
  }
  const tunnels = tunnelAddresses(node).map(formatAddress);
  return {
    kind: 'host',
    name: `${HOST}${host}`,
    node: host,
    addresses: firstOfFamilies(addresses).map((address) => ({ address, host })),
    notes: [
      ...hostNotes(view, host),
      ...(tunnels.length === 0
        ? []
        : [
            `packets that node ${host} sends through a tunnel come from ${tunnels.join(' and ')}: ask for that address too`,
          ]),
    ],
  };
}

function endOfPod({ view }: Cluster, name: string): NamedEnd {
  const endpoints = [...view.endpoints.values()].filter(({ kind, shown }) => kind === 'workload' && shown === name);
  const [first] = endpoints;
  if (first === undefined) throw noEndpoint(name);
  const addresses = endpoints.flatMap((pod) => firstOfFamilies(pod.addresses).map((address) => ({ address, pod })));
  if (addresses.length === 0) {
    throw new NetplugError('resource/not-found', `Cannot find an address of pod "${name}": it has finished`, {
      hint: 'Choose a pod that runs',
    });
  }
  return { kind: 'pod', name, node: first.node, addresses, notes: [] };
}

/** Returns the error for a pod that the datastore does not have. */
export function noEndpoint(pod: string): NetplugError {
  return new NetplugError('resource/not-found', `Cannot find pod "${pod}": the datastore has no endpoint of it`, {
    hint: 'Run "netplugctl get workloadendpoints -A"; a pod in the network of its host has none',
  });
}

function hostNotes(view: PolicyView, host: string): readonly string[] {
  const names = [...view.endpoints.values()].flatMap(({ kind, node, shown }) =>
    kind === 'host' && node === host ? [shown] : [],
  );
  return names.map((name) => `HostEndpoint ${name} of node ${host} is not considered: only policies of pods are`);
}

/** Returns all addresses that packets of the node itself may carry. */
export function nodeAddresses(node: Node): readonly Address[] {
  return [...hostAddresses(node), ...tunnelAddresses(node)];
}

function hostAddresses({ spec }: Node): readonly Address[] {
  const texts = [
    ...(spec.addresses ?? []).map(({ address }) => address),
    ...[spec.bgp?.ipv4Address, spec.bgp?.ipv6Address].flatMap((text) => text ?? []),
  ];
  return texts.flatMap((text) => tryParseAddress(text) ?? tryReadCidr(text)?.address ?? []);
}

function tunnelAddresses({ spec }: Node): readonly Address[] {
  const { ipv4VXLANTunnelAddr, ipv6VXLANTunnelAddr, ipv4IPIPTunnelAddr } = spec;
  return [ipv4VXLANTunnelAddr, ipv6VXLANTunnelAddr, ipv4IPIPTunnelAddr].flatMap((text) =>
    text === undefined ? [] : (tryParseAddress(text) ?? []),
  );
}

function firstOfFamilies(addresses: readonly Address[]): readonly Address[] {
  return addresses.filter((address, index) => addresses.findIndex(({ family }) => family === address.family) === index);
}
