import type { Unread } from './check.ts';

/** What the API of a cluster tells about every cluster, with or without netplug. */
export interface ClusterFacts {
  /** Version of the API server, such as `v1.37.2`. */
  readonly kubernetes: string;
  readonly nodes: readonly NodeState[];
  /** Webhooks that the API server asks about pods, nodes or objects of netplug. */
  readonly webhooks: readonly WebhookState[];
  /** Rights that the user lacks, as `patch daemonsets.apps in namespace netplug-system`. */
  readonly missingRights: readonly string[];
  readonly unread: readonly Unread[];
}

export interface NodeState {
  readonly name: string;
  readonly os: string;
  readonly isReady: boolean;
  /** Reason and message of the condition Ready, when it is not True. */
  readonly notReady?: string | undefined;
  readonly isSchedulable: boolean;
  readonly kubelet: string;
  readonly architecture: string;
  readonly kernel: string;
  readonly runtime: string;
  readonly addresses: readonly string[];
  readonly podCidrs: readonly string[];
  /** As `key=value:effect`. */
  readonly taints: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** How far the clock of the node is ahead of that of the API server; undefined when it cannot be told. */
  readonly clockAheadMs?: number | undefined;
}

export interface WebhookState {
  readonly name: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  /** Whether its server uses the network of pods. */
  readonly isBehindPodNetwork: boolean;
  readonly matches: readonly string[];
}
