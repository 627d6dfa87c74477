import type { ComponentOverride } from '../../model/installation.ts';
import type { IpPool } from '../../model/ip-pool.ts';
import type { Family } from '../../net/address.ts';

/**
 * What netplug does in a cluster: all of it; pods with addresses from their node's pod CIDR, between nodes another plugin; or
 * policies on the interfaces of another plugin.
 */
export const VARIANTS = ['policy-and-networking', 'second-plugin', 'policy-only'] as const;
export type Variant = (typeof VARIANTS)[number];

export type ClusterDatastore =
  | { readonly type: 'orch' }
  /** `endpoints` as in `KV_ENDPOINTS`. With TLS, a Secret holds the certificates. */
  | { readonly type: 'kvv3'; readonly endpoints: string; readonly tls: 'none' | 'secret' };

export interface Images {
  /** Of the agent and BIRD. */
  readonly node: string;
  /** Of controllers, operator and tool. */
  readonly tools: string;
  /** Names of Secrets in the namespace of netplug. */
  readonly pullSecrets: readonly string[];
}

/** Settings of the log of the plugin. */
export interface PluginLog {
  readonly severity: 'ERROR' | 'WARNING' | 'INFO' | 'DEBUG';
  readonly maxSizeMb: number;
  readonly maxAgeDays: number;
  readonly maxCount: number;
}

/** Everything that an installation in a cluster depends on. The objects of every method are rendered from it. */
export interface ClusterSettings {
  /** Such as `v3.27.0`. */
  readonly release: string;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore;
  readonly images: Images;
  readonly ipam: 'netplug-ipam' | 'HostLocal';
  /** Address families of pods; at least one. */
  readonly families: readonly Family[];
  readonly pools: readonly IpPool[];
  /** Whether BIRD runs on the nodes. */
  readonly bgp: boolean;
  /** In bytes; undefined for detection. */
  readonly mtu: number | undefined;
  readonly hostPorts: boolean;
  readonly bandwidth: boolean;
  /** Whether the networks of pods have `policy.type` `orch`. */
  readonly policy: boolean;
  readonly containerIpForwarding: boolean;
  /** Whether the annotation `floatingIPs` applies. */
  readonly floatingIps: boolean;
  /** Whether the annotation `ipAddrsNoIpam` applies. */
  readonly ipAddrsNoIpam: boolean;
  /** Values of `NETPLUG_IP` and `NETPLUG_IP6`. */
  readonly detection: { readonly 4: string | undefined; readonly 6: string | undefined };
  readonly log: PluginLog;
  /** Beginning of the names of pod interfaces, for policies on the interfaces of another plugin. */
  readonly interfacePrefix: string | undefined;
  readonly node: ComponentOverride;
  /** Whether agents get what has changed only when their pods are deleted. */
  readonly areAgentsHeld: boolean;
  readonly controllers: ComponentOverride;
  /** Replicas of the controllers. */
  readonly replicas: number;
}
