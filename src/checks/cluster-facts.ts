import type { NodeState } from '../kube/status/node-state.ts';
import type { Unread } from './check.ts';
import type { MeshFacts } from './mesh-checks.ts';

/** Facts that the API of a cluster tells about every cluster, with or without netplug. */
export interface ClusterFacts {
  /** Version of the API server, such as `v1.37.2`. */
  readonly kubernetes: string;
  readonly nodes: readonly NodeState[];
  /** Webhooks that the API server asks about pods, nodes or objects of netplug. */
  readonly webhooks: readonly WebhookState[];
  /** Rights that the user lacks, as `patch daemonsets.apps in namespace netplug-system`. */
  readonly missingRights: readonly string[];
  /** Roles for users that give fewer rights than those of the cluster, with the bindings of their users. */
  readonly lostRights: readonly LostRights[];
  /** Objects whose next pods the admission policies of netplug refuse, as `Deployment shop/web (cni.netplug/floatingIPs)`. */
  readonly refusedPods: readonly string[];
  /** Nodes that an agent has registered, and on which no pod runs one. */
  readonly agentsOutsidePods: readonly string[];
  /** Undefined where nothing uses netplug-sidecar, and in snapshots of older releases. */
  readonly meshState?: MeshFacts | undefined;
  /** Mode of kube-proxy, such as `ipvs`; undefined where the cluster does not tell it. */
  readonly proxyMode?: string | undefined;
  readonly unread: readonly Unread[];
}

export interface LostRights {
  readonly role: string;
  /** Such as `patch installations.netplug.io`. */
  readonly rights: readonly string[];
  /** Such as `ClusterRoleBinding admins (Group network-team)`. */
  readonly bindings: readonly string[];
}

export interface WebhookState {
  readonly name: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  /** Whether its server uses the network of pods. */
  readonly isBehindPodNetwork: boolean;
  readonly matches: readonly string[];
}
