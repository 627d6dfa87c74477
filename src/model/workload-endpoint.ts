import type { Allocation } from './ip-block.ts';
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
  readonly ipv4Gateway?: string;
  readonly ipv6Gateway?: string;
  readonly profiles: readonly string[];
  readonly serviceAccountName?: string;
  /** Named ports and host ports of the pod. */
  readonly ports?: readonly PodPort[];
  /** Floating IPs, each with the address of the pod that it is translated to. */
  readonly ipNATs?: readonly { readonly internalIP: string; readonly externalIP: string }[];
  /** Type of the address manager that gave the addresses; `none` for addresses assigned without one. */
  readonly ipam: string;
}
export type WorkloadEndpoint = Resource<'WorkloadEndpoint', WorkloadEndpointSpec>;

/** What `endpointName` and the datastore need to find an endpoint. */
export interface EndpointId {
  readonly node: string;
  readonly namespace: string;
  readonly name: string;
}

/**
 * The name of an endpoint: node, orchestrator, workload and interface joined by `-`, each with its own `-` doubled, so
 * that different endpoints never share a name.
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

/** What `endpointName` joined; undefined for a text that it did not make. */
export function parseEndpointName(
  name: string,
): { node: string; orchestrator: string; workload: string; endpoint: string } | undefined {
  // No name may hold a NUL, so that it can stand for a doubled `-` meanwhile.
  const parts = name
    .replaceAll('--', '\0')
    .split('-')
    .map((part) => part.replaceAll('\0', '-'));
  const [node, orchestrator, workload, endpoint] = parts;
  if (node === undefined || orchestrator === undefined || workload === undefined || endpoint === undefined)
    return undefined;
  return parts.length === 4 ? { node, orchestrator, workload, endpoint } : undefined;
}

export function endpointIdOf({ metadata, spec }: WorkloadEndpoint): EndpointId {
  return { node: spec.node, namespace: metadata.namespace ?? 'default', name: metadata.name };
}

/** The attachment that the endpoint describes. */
export function attachmentOf({ spec }: Pick<WorkloadEndpoint, 'spec'>): Attachment {
  return { network: spec.network, containerId: spec.containerID, ifName: spec.endpoint };
}

/** What holds the addresses of the endpoint. */
export function holderOfEndpoint(endpoint: WorkloadEndpoint): Holder {
  return { node: endpoint.spec.node, handle: handleOf(attachmentOf(endpoint)) };
}

/**
 * Whether the endpoint is that of the holder of an address. An endpoint that is a note on a pod may name any container;
 * whose note it is, its owner cannot change.
 */
export function isEndpointOf(endpoint: WorkloadEndpoint, holder: Allocation): boolean {
  const { metadata, spec } = endpoint;
  const isSamePod =
    spec.pod === holder.pod && (spec.pod === undefined || (metadata.namespace ?? 'default') === holder.namespace);
  return isSamePod && isSameHolder(holderOfEndpoint(endpoint), holder);
}

/** One text per endpoint, for maps. */
export function endpointKey({ node, namespace, name }: EndpointId): string {
  return JSON.stringify([node, namespace, name]);
}

export function isSameSpec(a: WorkloadEndpoint, b: WorkloadEndpoint): boolean {
  return JSON.stringify(a.spec) === JSON.stringify(b.spec);
}
