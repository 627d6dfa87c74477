import type { ClusterFacts } from '../../checks/cluster-facts.ts';
import type { Manifest } from '../../model/manifest.ts';
import type { PodState } from '../../kube/status/pod-state.ts';
import type { NodeRanges } from '../../model/cluster-ranges.ts';
import type { HostEndpoint } from '../../model/host-endpoint.ts';
import type { ClusterDatastore, Variant } from '../../install/cluster/settings.ts';

/** Form of a saved snapshot. */
export const SNAPSHOT_FORMAT = 2;

/** State on which an upgrade depends, read at one moment. It is plain data, so a plan can be made of a saved one. */
export interface ClusterSnapshot extends ClusterFacts {
  readonly format: typeof SNAPSHOT_FORMAT;
  /** The cluster as a phrase, with context, server and id. */
  readonly cluster?: string;
  /** RFC 3339. */
  readonly at: string;
  /** Release of the tool that has read it. */
  readonly tool: string;
  /** The method that the user named, where the cluster shows several; otherwise it is found out. */
  readonly method?: UpgradeMethod;
  /** Objects of netplug and those that its upgrade changes, without status, managers and the data of Secrets. */
  readonly objects: readonly Manifest[];
  /** Kinds that the API serves, as `group/plural`; the core group is empty. */
  readonly served: readonly string[];
  /** Releases of charts whose objects are those of netplug, newest revision of each. */
  readonly charts: readonly ChartRelease[];
  /** Pods of netplug. */
  readonly pods: readonly PodState[];
  /** Workloads that carry a sidecar of the application layer. */
  readonly sidecars: readonly SidecarWorkload[];
  /** Version text of the service mesh, from the image of its control plane; undefined without one. */
  readonly mesh: string | undefined;
  readonly datastore: DatastoreState;
  /** Objects that the target would change, as the API answered a dry run. */
  readonly dryRuns: readonly DryRunResult[];
  readonly services: number;
  /** Ranges of Services; undefined in snapshots of older releases. */
  readonly serviceCidrs?: readonly string[];
}

export interface ChartRelease {
  readonly name: string;
  readonly namespace: string;
  readonly revision: number;
  /** Status as the chart's tool records it: `deployed`, `pending-upgrade`, `failed` … */
  readonly status: string;
  readonly chart: string;
  readonly version: string;
  /** Values that the user gave. */
  readonly values: Readonly<Record<string, unknown>>;
  /** Name of the Secret of the record. */
  readonly record: string;
  /** Kinds of the objects of the chart; undefined when the snapshot does not tell. */
  readonly kinds?: readonly string[] | undefined;
}

export interface SidecarWorkload {
  /** With its group where that is none of Kubernetes, such as `Rollout.argoproj.io`. */
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The oldest and the newest release of the sidecars of its pods; undefined when no image names one. */
  readonly version?: string;
  readonly newest?: string;
  /** An image of them that names no release. */
  readonly unknownImage?: string;
}

/** Undefined parts could not be read; `unread` says why. */
export interface DatastoreState {
  readonly type: ClusterDatastore['type'];
  readonly clusterVersion: string | undefined;
  readonly isLocked: boolean | undefined;
  readonly hostEndpoints: readonly HostEndpoint[] | undefined;
  /** Names of policies with the label selector of the step before the upgrade. */
  readonly preparation: readonly string[];
  /** Problems of `netplugctl ipam check`. */
  readonly addressProblems: number | undefined;
  /** Subjects of these problems, as `ipam/leaked-address 10.0.0.7`; undefined in snapshots that only count them. */
  readonly addressFaults?: readonly string[] | undefined;
  /** Records that the target cannot read, by name, with the reason. */
  readonly unreadable: readonly string[];
  /** Policies with prefixes of paths that do not end at a segment, with these; undefined in snapshots of older releases. */
  readonly openPrefixes?: readonly string[];
  /** CIDRs of pools, with the share that is in use. */
  readonly pools: readonly PoolState[];
  /** Nodes with the networks that their agents have published; undefined in snapshots of older releases. */
  readonly nodes?: readonly NodeRanges[];
}

export interface PoolState {
  readonly name: string;
  readonly cidr: string;
  readonly used: number;
  /** Whether no further address is assigned from it. */
  readonly isDisabled?: boolean;
}

export interface DryRunResult {
  /** Object as `DaemonSet netplug-system/netplug-node`. */
  readonly object: string;
  readonly outcome: 'created' | 'changed' | 'unchanged' | 'refused';
  /** The API's own words, of a refusal. */
  readonly message: string;
  /** Fields that other managers own and lose. */
  readonly lost: readonly { readonly field: string; readonly manager: string }[];
}

/** Methods by which netplug was installed. */
export const UPGRADE_METHODS = ['operator', 'chart', 'manifest'] as const;
export type UpgradeMethod = (typeof UPGRADE_METHODS)[number];

export interface DetectedInstallation {
  readonly method: UpgradeMethod;
  readonly variant: Variant;
  readonly datastore: ClusterDatastore['type'];
  /** Release of each component, by name: of the workload's template. */
  readonly releases: Readonly<Record<string, string>>;
  /** The lowest release that runs; undefined when no image tells. */
  readonly from: string | undefined;
  readonly chart: ChartRelease | undefined;
}
