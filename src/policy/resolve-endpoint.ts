import { NO_MANAGER } from '../model/attachment-record.ts';
import { isAutomatic } from '../model/automatic-host-endpoint.ts';
import type { HostEndpoint } from '../model/host-endpoint.ts';
import type { GlobalNetworkSet, NetworkSet } from '../model/network-set.ts';
import type { PodPort } from '../model/pod.ts';
import {
  isOwnLabelName,
  NAMESPACE_LABEL,
  namespaceProfile,
  ORCHESTRATOR_LABEL,
  ownLabels,
  SERVICE_ACCOUNT_LABEL,
} from '../model/policy-names.ts';
import { protocolNumber } from '../model/protocol.ts';
import type { Labels } from '../model/selector.ts';
import type { WorkloadEndpoint } from '../model/workload-endpoint.ts';
import { type Address, tryParseAddress } from '../net/address.ts';
import { type Cidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import type { Evidence } from './address-claims.ts';
import type { EndpointPort, PolicyEndpoint } from './resolved-policy.ts';

const PROTOCOLS = ['TCP', 'UDP', 'SCTP'] as const;

/** Item that labels select: an endpoint or a network set, before profile labels and contested addresses are settled. */
export interface Selectable {
  /** The key of the endpoint; `set NAMESPACE/NAME` or `set NAME` of a network set. */
  readonly key: string;
  /** Labels that users gave, by the names by which selectors find them. Those of other names do not count. */
  readonly ownLabels: Labels;
  /** Labels that netplug sets, which win over all others. */
  readonly setLabels: Labels;
  /** Apply labels, in order of precedence. */
  readonly profiles: readonly string[];
  readonly cidrs: readonly Cidr[];
  /** RFC 3339. */
  readonly createdAt: string;
  /** Evidence that a pod has its addresses. Others need none: users say what addresses those have. */
  readonly evidence?: Evidence;
  /** Undefined for a network set. */
  readonly endpoint: PolicyEndpoint | undefined;
}

export function workloadKey({ metadata }: Pick<WorkloadEndpoint, 'metadata'>): string {
  return `pod ${metadata.namespace ?? 'default'}/${metadata.name}`;
}

export function hostKey(name: string): string {
  return `host ${name}`;
}

export function selectableWorkload(resource: WorkloadEndpoint): Selectable {
  const { metadata, spec } = resource;
  const { namespace = 'default' } = metadata;
  const addresses = exactly(spec.ipNetworks.flatMap((text) => tryReadCidr(text)?.address ?? []));
  const key = workloadKey(resource);
  const account = spec.serviceAccountName;
  return {
    key,
    ownLabels: metadata.labels ?? {},
    setLabels: {
      [NAMESPACE_LABEL]: namespace,
      [ORCHESTRATOR_LABEL]: spec.orchestrator,
      ...(account === undefined ? {} : { [SERVICE_ACCOUNT_LABEL]: account }),
    },
    profiles: spec.profiles,
    cidrs: addresses.map(hostCidr),
    createdAt: metadata.creationTimestamp ?? '',
    evidence: evidenceOf(spec),
    endpoint: {
      key,
      kind: 'workload',
      shown: `${namespace}/${spec.pod ?? spec.containerID}`,
      node: spec.node,
      namespace,
      labels: {},
      addresses,
      ports: exactly((spec.ports ?? []).flatMap((port) => portOf(port))),
      profiles: spec.profiles,
      interfaceName: spec.interfaceName === '' ? undefined : spec.interfaceName,
    },
  };
}

export function selectableHost({ metadata, spec }: HostEndpoint): Selectable {
  const addresses = (spec.expectedIPs ?? []).flatMap((text): Address[] => {
    const address = tryParseAddress(text);
    return address === undefined ? [] : [address];
  });
  const key = hostKey(metadata.name);
  return {
    key,
    ownLabels: ownLabels(metadata.labels),
    setLabels: {},
    profiles: spec.profiles ?? [],
    cidrs: addresses.map(hostCidr),
    createdAt: metadata.creationTimestamp ?? '',
    endpoint: {
      key,
      kind: 'host',
      shown: metadata.name,
      node: spec.node,
      namespace: undefined,
      labels: {},
      addresses,
      ports: (spec.ports ?? []).flatMap((port) => portOf(port)),
      profiles: spec.profiles ?? [],
      interfaceName: spec.interfaceName,
      ...(isAutomatic({ metadata }) ? { isAutomatic: true } : {}),
    },
  };
}

/** A set of a namespace has the labels of the namespace, so that namespace selectors find it. */
export function selectableSet({ kind, metadata, spec }: NetworkSet | GlobalNetworkSet): Selectable {
  const namespace = kind === 'NetworkSet' ? (metadata.namespace ?? 'default') : undefined;
  return {
    key: setKey(metadata.name, namespace),
    ownLabels: ownLabels(metadata.labels),
    setLabels: namespace === undefined ? {} : { [NAMESPACE_LABEL]: namespace },
    profiles: namespace === undefined ? [] : [namespaceProfile(namespace)],
    cidrs: spec.nets.flatMap((text) => tryReadCidr(text)?.cidr ?? []),
    createdAt: metadata.creationTimestamp ?? '',
    endpoint: undefined,
  };
}

export function setKey(name: string, namespace: string | undefined): string {
  return namespace === undefined ? `set ${name}` : `set ${namespace}/${name}`;
}

/** Returns the labels by which selectors find it; those of its profiles are given in order of precedence. */
export function labelsOf(
  { ownLabels, setLabels }: Pick<Selectable, 'ownLabels' | 'setLabels'>,
  ofProfiles: readonly Labels[],
): Labels {
  const own = Object.entries(ownLabels).filter(([label]) => isOwnLabelName(label));
  const applied = ofProfiles.toReversed().map((labels) => Object.entries(labels));
  return Object.fromEntries([...applied.flat(), ...own, ...Object.entries(setLabels)]);
}

/**
 * Only a record of the node names the container. No slot of a block says that a pod has an address that it asked for without an
 * address manager: a pod that holds a slot comes before it.
 */
function evidenceOf(spec: WorkloadEndpoint['spec']): Evidence {
  const { containerID, areAddressesReported, isTerminating, ipam } = spec;
  if (containerID !== '' && ipam === NO_MANAGER) return 'reported';
  if (containerID === '') return isTerminating === true ? 'reported before its end' : 'reported';
  return areAddressesReported === true ? 'recorded and reported' : 'recorded';
}

/** Returns the list without the room to grow that `flatMap` leaves, which 10 000 pods have many times. */
function exactly<T>(list: readonly T[]): readonly T[] {
  return list.slice();
}

/** Only pods have ports without a name. */
function portOf({ name, protocol, port }: PodPort): EndpointPort[] {
  const known = PROTOCOLS.find((each) => each === protocol);
  return name === undefined || known === undefined ? [] : [{ name, protocol: protocolNumber(known), port }];
}
