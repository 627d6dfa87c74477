import { AGENT_CONFIGURATION, type AgentConfiguration } from './agent-configuration.ts';
import { BGP_CONFIGURATION, type BgpConfiguration } from './bgp-configuration.ts';
import { BGP_PEER, type BgpPeer } from './bgp-peer.ts';
import { CLUSTER_INFORMATION, type ClusterInformation } from './cluster-information.ts';
import { CONTROLLERS_CONFIGURATION, type ControllersConfiguration } from './controllers-configuration.ts';
import { HOST_ENDPOINT, type HostEndpoint } from './host-endpoint.ts';
import { INSTALLATION, type Installation } from './installation.ts';
import { IP_POOL, type IpPool } from './ip-pool.ts';
import { IP_RESERVATION, type IpReservation } from './ip-reservation.ts';
import { IPAM_CONFIGURATION, type IpamConfiguration } from './ipam-configuration.ts';
import type { KindDeclaration } from './kind-info.ts';
import { GLOBAL_NETWORK_SET, type GlobalNetworkSet, NETWORK_SET, type NetworkSet } from './network-set.ts';
import { NODE, type Node } from './node.ts';
import { NODE_REPORT, type NodeReport } from './node-report.ts';
import { GLOBAL_NETWORK_POLICY, type GlobalNetworkPolicy, NETWORK_POLICY, type NetworkPolicy } from './policy.ts';
import { PROFILE, type Profile } from './profile.ts';

/** Resources with an envelope and a spec. Only netplug writes endpoints and blocks, which have their own methods. */
export type AnyResource =
  | IpPool
  | IpReservation
  | IpamConfiguration
  | Node
  | BgpConfiguration
  | BgpPeer
  | HostEndpoint
  | NetworkPolicy
  | GlobalNetworkPolicy
  | Profile
  | NetworkSet
  | GlobalNetworkSet
  | AgentConfiguration
  | ControllersConfiguration
  | Installation
  | NodeReport
  | ClusterInformation;
export type ResourceKind = AnyResource['kind'];
export type ResourceOf<K extends ResourceKind> = Extract<AnyResource, { kind: K }>;

export const KINDS: { readonly [K in ResourceKind]: KindDeclaration<ResourceOf<K>> } = {
  IPPool: IP_POOL,
  IPReservation: IP_RESERVATION,
  IPAMConfiguration: IPAM_CONFIGURATION,
  Node: NODE,
  BGPConfiguration: BGP_CONFIGURATION,
  BGPPeer: BGP_PEER,
  HostEndpoint: HOST_ENDPOINT,
  NetworkPolicy: NETWORK_POLICY,
  GlobalNetworkPolicy: GLOBAL_NETWORK_POLICY,
  Profile: PROFILE,
  NetworkSet: NETWORK_SET,
  GlobalNetworkSet: GLOBAL_NETWORK_SET,
  AgentConfiguration: AGENT_CONFIGURATION,
  ControllersConfiguration: CONTROLLERS_CONFIGURATION,
  Installation: INSTALLATION,
  NodeReport: NODE_REPORT,
  ClusterInformation: CLUSTER_INFORMATION,
};

// The keys of the table are the kinds; the compiler widens them to strings.
export const KIND_NAMES = Object.keys(KINDS) as readonly ResourceKind[];

/** The kinds that decide which traffic endpoints may have. */
export const POLICY_KINDS = [
  'NetworkPolicy',
  'GlobalNetworkPolicy',
  'Profile',
  'NetworkSet',
  'GlobalNetworkSet',
  'HostEndpoint',
] as const satisfies readonly ResourceKind[];

/** Returns the kind that a word on a command line names: singular, plural or short name, in any letter case. */
export function findKind(word: string): ResourceKind | undefined {
  const lower = word.toLowerCase();
  return KIND_NAMES.find((kind) => {
    const { plural, shortNames } = KINDS[kind];
    return kind.toLowerCase() === lower || plural === lower || shortNames.includes(lower);
  });
}
