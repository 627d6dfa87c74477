import type { LogLevel } from '../base/log.ts';
import type { ChosenBy } from '../model/ip-block.ts';
import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Datastore, OrchSettings } from './connection.ts';

/** Supported versions of the CNI specification, oldest first. */
export const CNI_VERSIONS = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'] as const;
export type CniVersion = (typeof CNI_VERSIONS)[number];

/** A decoded network configuration: every default filled in, every rule checked. */
export interface Netconf {
  readonly name: string;
  readonly cniVersion: CniVersion;
  /** Undefined when the option is absent; then the host name is used. */
  readonly nodename: string | undefined;
  readonly datastore: Datastore;
  readonly log: LogSettings;
  readonly ipam: Ipam;
  readonly allowIpForwarding: boolean;
  readonly readinessGates: readonly string[];
  /** Bytes; undefined leaves it to the kernel. */
  readonly mtu: number | undefined;
  readonly numQueues: number;
  readonly includeDefaultRoutes: boolean;
  readonly policyType: 'orch' | undefined;
  /** Settings that need the orchestrator's API without access to it; the caller refuses with `netconf/needs-orchestrator`. */
  readonly needsOrchestrator: readonly OrchestratorNeed[];
  readonly orch: OrchSettings;
  readonly features: Features;
  /** The input of the runtime. */
  readonly runtime: RuntimeInput;
  /** Deprecated or ignored options, one sentence each, for the log. */
  readonly warnings: readonly string[];
}

/** A setting that needs the API of the orchestrator. */
export interface OrchestratorNeed {
  readonly path: string;
  readonly reason: string;
}

/** Switches by which an administrator allows annotations. */
export interface Features {
  readonly ipAddrsNoIpam: boolean;
  readonly floatingIps: boolean;
}

export interface LogSettings {
  readonly level: LogLevel;
  /** Undefined turns file logging off. */
  readonly filePath: string | undefined;
  readonly fileMaxSizeMb: number;
  readonly fileMaxAgeDays: number;
  readonly fileMaxCount: number;
}

export type Ipam =
  | { readonly type: 'netplug-ipam'; readonly v4: PoolChoice; readonly v6: PoolChoice }
  | {
      readonly type: 'host-local';
      /** Undefined when the option is absent (a default route per family). */
      readonly routes: readonly Cidr[] | undefined;
      /** Paths of values that need the node's pod CIDR, such as `ipam.ranges[0][0].subnet`. */
      readonly podCidrPaths: readonly string[];
    }
  | { readonly type: 'other'; readonly plugin: string };

/** `assign` is false when the family is switched off; `pools` undefined means every available pool. */
export interface PoolChoice {
  readonly assign: boolean;
  readonly pools: readonly PoolRef[] | undefined;
  /** The rank of the precedence table that chose the pools, and a description of its source. */
  readonly askedBy?: { readonly rule: ChosenBy; readonly text: string };
}

/** A reference to a pool: by name, or by its exact CIDR. */
export type PoolRef = { readonly by: 'name'; readonly name: string } | { readonly by: 'cidr'; readonly cidr: Cidr };

export interface RuntimeInput {
  /** The previous result, not decoded; undefined without one. */
  readonly prevResult: unknown;
  /** `runtimeConfig.ips`, else `args.cni.ips`; prefix lengths are dropped. */
  readonly ips: readonly Address[];
  readonly mac: string | undefined;
  /** `cni.dev/valid-attachments`, or the older `cni.dev/attachments`; undefined when the key is absent. */
  readonly validAttachments: readonly { readonly containerId: string; readonly ifName: string }[] | undefined;
  /** `disableGC`, which belongs into the list; runtimes do not pass it on, but an entry may have it. */
  readonly disablesGc: boolean;
}
