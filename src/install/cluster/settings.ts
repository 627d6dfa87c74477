import type { IpPool } from '../../model/ip-pool.ts';
import type { Family } from '../../net/address.ts';
import type { CompleteSpec } from './spec-path.ts';

/**
 * Roles of netplug in a cluster: everything; pods with addresses from their node's pod CIDR, between nodes another plugin;
 * or policies on the interfaces of another plugin.
 */
export const VARIANTS = ['policy-and-networking', 'second-plugin', 'policy-only'] as const;
export type Variant = (typeof VARIANTS)[number];

export type ClusterDatastore =
  | { readonly type: 'orch' }
  /** `endpoints` as in `KV_ENDPOINTS`. With TLS, a Secret holds the certificates. */
  | { readonly type: 'kvv3'; readonly endpoints: string; readonly tls: 'none' | 'secret' };

export interface Images {
  /** Image of the agent and BIRD. */
  readonly node: string;
  /** Image of the controllers, the operator and the tool. */
  readonly tools: string;
  /** Names of Secrets in the namespace of netplug. */
  readonly pullSecrets: readonly string[];
}

/** Everything that an installation in a cluster depends on. The objects of every method are rendered from it. */
export interface ClusterSettings {
  /** Example: `v3.27.0`. */
  readonly release: string;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore;
  /** Spec that the user has written, with every default. The same settings follow from it. */
  readonly spec: CompleteSpec;
  readonly images: Images;
  /** Address families of pods; at least one. */
  readonly families: readonly Family[];
  /** Pools to apply. */
  readonly pools: readonly IpPool[];
  /** Beginning of the names of pod interfaces, for policies on the interfaces of another plugin. */
  readonly interfacePrefix: string | undefined;
  /** Whether agents get what has changed only when their pods are deleted. */
  readonly areAgentsHeld: boolean;
  /** Whether an Installation in the cluster says what is installed. */
  readonly isOperated: boolean;
}

/** Reports whether agents get what every node follows from the servers of the fan-out. */
export function hasFanOut({ spec }: Pick<ClusterSettings, 'spec'>): boolean {
  return spec.typha.mode === 'Enabled';
}

/** Reports whether routes follow the pod CIDRs of nodes, since host-local assigns addresses. Agents and fan-out must agree. */
export function usesPodCidrs({ spec }: Pick<ClusterSettings, 'spec'>): boolean {
  return spec.cni.ipam.type === 'HostLocal';
}
