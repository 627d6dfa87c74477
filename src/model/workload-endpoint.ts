import { type Allocation, hasAddressOf, type IpBlock } from './ip-block.ts';
import { type Attachment, handleOf, type Holder, isSameHolder } from './names.ts';
import type { PodPort } from './pod.ts';
import type { Resource } from './resource.ts';

export interface WorkloadEndpointSpec {
  /** `orch` when the runtime named a pod, otherwise `cni`. */
  readonly orchestrator: 'orch' | 'cni';
  readonly node: string;
  readonly network: string;
  readonly containerID: string;
  readonly pod?: string;
  readonly podUID?: string;
  /** Interface name inside the pod. */
  readonly endpoint: string;
  /** Host side of the link; absent when another main plugin made the link. */
  readonly interfaceName: string;
  readonly mac: string;
  /** /32 and /128 CIDRs. */
  readonly ipNetworks: readonly string[];
  /** The kubelet of the node reports the addresses. Never stored. */
  readonly areAddressesReported?: true;
  /** The pod is being deleted: another pod may have its addresses soon. Never stored. */
  readonly isTerminating?: true;
  readonly ipv4Gateway?: string;
  readonly ipv6Gateway?: string;
  readonly profiles: readonly string[];
  readonly serviceAccountName?: string;
  /** Named ports and host ports of the pod. */
  readonly ports?: readonly PodPort[];
  /** Floating IPs, each with the address of the pod to which it is translated. */
  readonly ipNATs?: readonly { readonly internalIP: string; readonly externalIP: string }[];
  /** Type of the address manager that assigned the addresses; `none` for addresses assigned without one. */
  readonly ipam: string;
}
export type WorkloadEndpoint = Resource<'WorkloadEndpoint', WorkloadEndpointSpec>;

/** The interface of a pod for which the API of the orchestrator has a record. */
export const MAIN_INTERFACE = 'eth0';

/** Identifies an endpoint in the datastore. */
export interface EndpointId {
  readonly node: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * Returns the name of an endpoint: node, orchestrator, workload and interface joined by `-`. A `-` inside a part is
 * doubled, so that different endpoints never have the same name.
 */
export function endpointName(parts: {
  node: string;
  orchestrator: string;
  workload: string;
  endpoint: string;
}): string {
  return [parts.node, parts.orchestrator, parts.workload, parts.endpoint]
    .map((part) => part.replaceAll('-', '--'))
    .join('-');
}

export function endpointIdOf({
  metadata,
  spec,
}: {
  readonly metadata: Pick<WorkloadEndpoint['metadata'], 'name' | 'namespace'>;
  readonly spec: Pick<WorkloadEndpoint['spec'], 'node'>;
}): EndpointId {
  return { node: spec.node, namespace: metadata.namespace ?? 'default', name: metadata.name };
}

/** Returns the attachment that the endpoint describes. */
export function attachmentOf({ spec }: Pick<WorkloadEndpoint, 'spec'>): Attachment {
  return { network: spec.network, containerId: spec.containerID, ifName: spec.endpoint };
}

/** Reports whether the endpoint is of this container in this network, with these addresses if given. */
export function isOfContainer(
  { spec }: Pick<WorkloadEndpoint, 'spec'>,
  {
    containerId,
    network,
    ipNetworks = spec.ipNetworks,
  }: Pick<Attachment, 'containerId' | 'network'> & { readonly ipNetworks?: readonly string[] | undefined },
): boolean {
  return spec.containerID === containerId && spec.network === network && spec.ipNetworks.join() === ipNetworks.join();
}

/** Reports whether the attachment of the endpoint holds an address of the block, by an allocation that passes `which`. */
export function holdsAddressOf(
  block: IpBlock,
  endpoint: WorkloadEndpoint,
  which: (allocation: Allocation) => boolean = () => true,
): boolean {
  const handle = handleOf(attachmentOf(endpoint));
  return hasAddressOf(block, handle) && [...block.slots.values()].some((held) => held.handle === handle && which(held));
}

/** Returns the holder of the addresses of the endpoint. */
export function holderOfEndpoint(endpoint: WorkloadEndpoint): Holder {
  return { node: endpoint.spec.node, handle: handleOf(attachmentOf(endpoint)) };
}

/**
 * Reports whether the endpoint belongs to the holder of an address. It must also match the pod: users can write any
 * container into an endpoint that is an annotation, but cannot change to which pod the annotation belongs.
 */
export function isEndpointOf(endpoint: WorkloadEndpoint, holder: Allocation): boolean {
  const { metadata, spec } = endpoint;
  const isSamePod =
    spec.pod === holder.pod && (spec.pod === undefined || (metadata.namespace ?? 'default') === holder.namespace);
  return isSamePod && isSameHolder(holderOfEndpoint(endpoint), holder);
}

/** Returns a unique text for the endpoint, for use as a map key. */
export function endpointKey({ node, namespace, name }: EndpointId): string {
  return JSON.stringify([node, namespace, name]);
}

/** Returns the endpoint with what users decide of its pod, and may change while it runs: labels, ports and profiles. */
export function withContentOf(endpoint: WorkloadEndpoint, { metadata, spec }: WorkloadEndpoint): WorkloadEndpoint {
  const { profiles, ports, serviceAccountName } = spec;
  const { ports: _ports, serviceAccountName: _account, ...rest } = endpoint.spec;
  return {
    ...endpoint,
    metadata: { ...endpoint.metadata, labels: metadata.labels ?? {} },
    spec: {
      ...rest,
      profiles,
      ...(ports === undefined ? {} : { ports }),
      ...(serviceAccountName === undefined ? {} : { serviceAccountName }),
    },
  };
}

export function isSameSpec(a: WorkloadEndpoint, b: WorkloadEndpoint): boolean {
  return JSON.stringify(a.spec) === JSON.stringify(b.spec);
}
