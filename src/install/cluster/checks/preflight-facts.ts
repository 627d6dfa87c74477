import type { ClusterFacts } from '../../../checks/cluster-facts.ts';
import type { ClusterDatastore, Variant } from '../settings.ts';

/** Facts that the API of a cluster tells about it before an installation. */
export interface PreflightFacts extends ClusterFacts {
  /** Empty when the cluster does not tell them. */
  readonly serviceCidrs: readonly string[];
  readonly pools: readonly NamedRange[];
  /** Names of DaemonSets, as `namespace/name`, that are network plugins. */
  readonly foreignPlugins: readonly string[];
  /** Pods on the network of their node with ports of netplug, as `namespace/name`. */
  readonly portHolders: readonly { readonly pod: string; readonly port: number }[];
  readonly definitions: readonly DefinitionFact[];
  /** Release of the newest program that has run in the cluster. */
  readonly release: string | undefined;
  /** Method by which netplug is installed already; undefined when it is not. */
  readonly installedBy: InstallMethod | undefined;
  /** Whether the API server evaluates admission policies. */
  readonly servesAdmission: boolean;
  /** Faults of the certificates of etcd, such as `/etc/a.crt: has expired`. */
  readonly certificateFaults: readonly string[];
}

export const INSTALL_METHODS = ['operator', 'chart', 'manifest'] as const;
export type InstallMethod = (typeof INSTALL_METHODS)[number];

export interface NamedRange {
  readonly name: string;
  readonly cidr: string;
}

/** A definition in the cluster, compared with that of this release. */
export interface DefinitionFact {
  readonly name: string;
  /** Release in the label of the definition. */
  readonly release: string | undefined;
  /** Fields that only the cluster has. */
  readonly further: readonly string[];
  /** Fields that only this release has. */
  readonly lacking: readonly string[];
}

/** A pool that a user asks for. */
export interface WantedPool extends NamedRange {
  /** Where the user named it, such as `--pool 10.1.0.0/16`. */
  readonly field: string;
}

/** The installation that a user asks for. */
export interface WantedInstallation {
  readonly method: InstallMethod;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore;
  /** Installation by manifest that exists already; undefined without one. */
  readonly runs: { readonly variant: Variant; readonly datastore: ClusterDatastore } | undefined;
  readonly usesPodCidrs: boolean;
  readonly admissionPolicies: 'Enabled' | 'Disabled';
  readonly pools: readonly WantedPool[];
  /** The release of the tool. */
  readonly release: string;
}
