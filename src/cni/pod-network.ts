import { NetplugError } from '../base/errors.ts';
import { GATEWAYS, type HostLink, type PodNetwork, type PodNetworkState } from '../dataplane/kernel.ts';
import { type FloatingPair, NO_MANAGER } from '../model/attachment-record.ts';
import { ownLabels } from '../model/policy-names.ts';
import { type EndpointId, endpointName, type WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Address, type Family, formatAddress } from '../net/address.ts';
import { type Cidr, formatCidr, hostCidr, parseCidr } from '../net/cidr.ts';
import { HOST_MAC } from '../net/mac.ts';
import { ANNOTATIONS } from '../model/annotation-keys.ts';
import type { CniCall } from './call.ts';
import { describeDifference } from './describe-difference.ts';
import { linkOwner, podMacOf } from './link-name.ts';
import type { CniResult } from './result.ts';

const DEFAULT_ROUTES: Readonly<Record<Family, Cidr>> = { 4: parseCidr('0.0.0.0/0'), 6: parseCidr('::/0') };

/** Returns the desired network of the pod with these addresses. */
export function planPodNetwork(call: CniCall, addresses: readonly Address[], hostLinkName: string): PodNetwork {
  const { config, attachment, args } = call;
  return {
    netns: call.netns,
    podLinkName: attachment.ifName,
    hostLinkName,
    owner: linkOwner(attachment, call.pod),
    podMac: config.runtime.mac ?? args.mac ?? podMacOf(attachment),
    mtu: config.mtu,
    queues: config.numQueues,
    addresses,
    routes: planRoutes(call, addresses),
    allowIpForwarding: config.allowIpForwarding,
  };
}

/** Returns a default route for each family of the pod, unless the host-local configuration lists routes. */
function planRoutes({ config }: CniCall, addresses: readonly Address[]): Cidr[] {
  const families = new Set(addresses.map(({ family }) => family));
  const listed = config.ipam.type === 'host-local' ? config.ipam.routes : undefined;
  const defaults = listed === undefined || config.includeDefaultRoutes ? Object.values(DEFAULT_ROUTES) : [];
  const routes = [...defaults, ...(listed ?? [])].filter(({ base }) => families.has(base.family));
  return [...new Map(routes.map((cidr) => [formatCidr(cidr), cidr])).values()];
}

/** Returns the identity of the endpoint of the call, which depends neither on addresses nor on the facts of the pod. */
export function planEndpointId({ attachment, pod, node }: Omit<CniCall, 'endpointId'>): EndpointId {
  const orchestrator = orchestratorOf(pod);
  const workload = pod?.name ?? attachment.containerId;
  const name = endpointName({ node, orchestrator, workload, endpoint: attachment.ifName });
  return { node, namespace: pod?.namespace ?? 'default', name };
}

function orchestratorOf(pod: CniCall['pod']): 'cni' | 'orch' {
  return pod === undefined ? 'cni' : 'orch';
}

/** Returns the endpoint resource of the pod, which network policy and tools read. */
export function planEndpoint(call: CniCall, network: PodNetwork): WorkloadEndpoint {
  const { attachment, pod, node } = call;
  const { addresses } = network;
  const orchestrator = orchestratorOf(pod);
  const { namespace, name } = planEndpointId(call);
  const families = new Set(addresses.map(({ family }) => family));
  const facts = call.orchPod?.facts;
  const account = facts?.serviceAccount;
  return {
    apiVersion: 'netplug.io/v3',
    kind: 'WorkloadEndpoint',
    metadata: {
      name,
      namespace,
      labels: {
        ...ownLabels(facts?.labels),
        'netplug/namespace': namespace,
        'netplug/orchestrator': orchestrator,
        ...(account === undefined ? {} : { 'netplug/serviceaccount': account }),
      },
    },
    spec: {
      orchestrator,
      node,
      network: attachment.network,
      containerID: attachment.containerId,
      ...(pod === undefined ? {} : { pod: pod.name }),
      ...(pod?.uid === undefined ? {} : { podUID: pod.uid }),
      endpoint: attachment.ifName,
      interfaceName: network.hostLinkName,
      mac: network.podMac,
      ipNetworks: addresses.map((address) => formatCidr(hostCidr(address))),
      ...(families.has(4) ? { ipv4Gateway: GATEWAYS[4] } : {}),
      ...(families.has(6) ? { ipv6Gateway: GATEWAYS[6] } : {}),
      profiles:
        facts === undefined
          ? [attachment.network]
          : [`kns.${namespace}`, ...(account === undefined ? [] : [`ksa.${namespace}.${account}`])],
      ...(account === undefined ? {} : { serviceAccountName: account }),
      ...(facts === undefined || facts.ports.length === 0 ? {} : { ports: facts.ports }),
      ...natsOf(floatingPairs(call, addresses)),
      ipam: addressManagerOf(call),
    },
  };
}

/** Reports whether an annotation sets the pod's addresses and bypasses the address manager. */
export function isBypassed({ orchPod }: CniCall): boolean {
  return orchPod?.requests.addresses?.via === 'bypass';
}

/** Returns the type of the address manager that assigns the addresses of the call, or `none`. */
export function addressManagerOf(call: CniCall): string {
  const { ipam } = call.config;
  if (isBypassed(call)) return NO_MANAGER;
  return ipam.type === 'other' ? ipam.plugin : ipam.type;
}

function natsOf(floating: readonly FloatingPair[]): Pick<WorkloadEndpoint['spec'], 'ipNATs'> {
  const ipNATs = floating.map(({ external, internal }) => ({
    internalIP: formatAddress(internal),
    externalIP: formatAddress(external),
  }));
  return ipNATs.length === 0 ? {} : { ipNATs };
}

/** Pairs each floating IP with the pod's address of its family. @throws annotation/invalid when the pod has none */
export function floatingPairs({ orchPod, pod }: CniCall, addresses: readonly Address[]): readonly FloatingPair[] {
  if (addresses.length === 0) return [];
  return (orchPod?.requests.floatingIps ?? []).map((external) => {
    const internal = addresses.find(({ family }) => family === external.family);
    if (internal !== undefined) return { external, internal };
    const text = formatAddress(external);
    throw new NetplugError(
      'annotation/invalid',
      `Cannot use the annotations of pod "${pod?.namespace ?? ''}/${pod?.name ?? ''}": ${ANNOTATIONS.floatingIPs} contains ${text}, but the pod has no IPv${String(external.family)} address`,
      { hint: 'Use floating IPs of the families that the pod has addresses of' },
    );
  });
}

/** Returns the CNI result for a network that is in place. */
export function resultOf(network: PodNetwork, more: { mtu: number; dns: CniResult['dns'] }): CniResult {
  return {
    interfaces: [
      { name: network.hostLinkName, mac: HOST_MAC, mtu: more.mtu },
      { name: network.podLinkName, mac: network.podMac, mtu: more.mtu, sandbox: network.netns },
    ],
    ips: network.addresses.map((address) => ({
      address: formatCidr(hostCidr(address)),
      gateway: GATEWAYS[address.family],
      interface: 1,
    })),
    routes: network.routes.map((cidr) => ({ dst: formatCidr(cidr), gw: GATEWAYS[cidr.base.family] })),
    dns: more.dns,
  };
}

/** Reports whether the link belongs to this attachment. Ignores the network name, which the link alias may truncate. */
export function isOwnLink(link: HostLink, { owner }: PodNetwork): boolean {
  return link.owner?.containerId === owner.containerId && link.owner.ifName === owner.ifName;
}

/** Describes the first difference between desired and actual network; undefined when there is none. */
export function firstDifference(network: PodNetwork, state: PodNetworkState): string | undefined {
  const { hostLink, podLink } = state;
  const host = `interface "${network.hostLinkName}" of the host`;
  const pod = `interface "${network.podLinkName}" of the pod`;
  if (hostLink === undefined) return `${host} is missing`;
  if (!isOwnLink(hostLink, network))
    return `${host} belongs to ${hostLink.owner === undefined ? 'no known container' : `container "${hostLink.owner.containerId}"`}`;
  if (podLink === undefined) return `${pod} is missing`;
  if (podLink.peerIndex !== undefined && podLink.peerIndex !== hostLink.index)
    return `${pod} is not the other end of "${network.hostLinkName}"`;
  if (!hostLink.isUp) return `${host} is down`;
  if (!podLink.isUp) return `${pod} is down`;
  if (hostLink.mac !== HOST_MAC) return `${host} has MAC ${hostLink.mac} instead of ${HOST_MAC}`;
  if (podLink.mac !== network.podMac) return `${pod} has MAC ${podLink.mac} instead of ${network.podMac}`;
  for (const [name, { mtu }] of [
    [host, hostLink],
    [pod, podLink],
  ] as const) {
    if (network.mtu !== undefined && mtu !== network.mtu)
      return `${name} has MTU ${String(mtu)} instead of ${String(network.mtu)}`;
  }
  return contentDifferences(network, state).find((difference) => difference !== undefined);
}

function contentDifferences(network: PodNetwork, state: PodNetworkState): (string | undefined)[] {
  const addresses = network.addresses.map((address) => formatCidr(hostCidr(address)));
  const routes = network.routes.map((cidr) => `${formatCidr(cidr)} via ${GATEWAYS[cidr.base.family]}`);
  const hostRoutes = network.addresses.map(formatAddress);
  const missing = (what: string, expected: readonly string[], found: readonly string[]): string | undefined => {
    const difference = describeDifference(
      expected,
      found.filter((text) => expected.includes(text)),
    );
    return difference === undefined ? undefined : `${what} ${difference}`;
  };
  const families = new Set(network.addresses.map(({ family }) => family));
  const forwarding = [...families].filter((family) => state.ipForwarding[family] !== network.allowIpForwarding);
  return [
    missing(`interface "${network.podLinkName}" of the pod`, addresses, state.podAddresses),
    missing('the routing table of the pod', routes, state.podRoutes),
    missing(
      'the routing table of the host',
      hostRoutes,
      state.hostRoutes.map((text) => text.split('/')[0] ?? text),
    ),
    state.wrongSysctls.length === 0 ? undefined : `a sysctl of the host is wrong: ${state.wrongSysctls.join(', ')}`,
    forwarding.length === 0
      ? undefined
      : `IP forwarding of the pod is ${network.allowIpForwarding ? 'off' : 'on'} for IPv${forwarding.join(', IPv')}`,
  ];
}
