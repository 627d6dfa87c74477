import type { Isolation, SandboxEndpoint } from '../../cni/pod-isolation.ts';
import type { EffectiveSettings } from '../../config/agent-settings.ts';
import type { Query } from '../../datastore/follow.ts';
import type { FollowAnswer, FollowRequest } from '../../datastore/follow-messages.ts';
import type { FlowsQuestion, ShownFlows } from '../../model/shown-flows.ts';
import type { RelayedEvent } from '../../kube/shared-watches.ts';
import type { RelayState } from '../../kube/watch-relay.ts';
import type { NodeProblem } from '../../model/node-report.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import type { NetworkStanding } from './network-gauges.ts';
import type { ShownParts } from './network/shown-network.ts';

/** Messages from the process that serves calls to the network process of its node. */
export type ToNetwork =
  /** Requests an answer with the same kind and id. */
  | { readonly kind: 'status' | 'show'; readonly id: number }
  /** Requests flows of the node's pods. */
  | { readonly kind: 'flows'; readonly id: number; readonly question: FlowsQuestion }
  /** Requests that the policies of an endpoint of this node, as its ADD knows it, are enforced. */
  | ({ readonly kind: 'isolate'; readonly id: number; readonly endpoint: WorkloadEndpoint } & AddTime)
  /** Requests that nothing matches the endpoint any more. */
  | { readonly kind: 'release'; readonly id: number; readonly endpoint: SandboxEndpoint }
  /** This machine has the name of the node, so that the process may use what belongs to the node in the datastore. */
  | { readonly kind: 'named' }
  /** Requests shutdown. The kernel keeps its state. */
  | { readonly kind: 'stop' }
  | FollowAnswer;

/** Time when an endpoint was added. */
export interface AddTime {
  /** RFC 3339. */
  readonly addedAt: string;
  /** Whether its ADD has ended, so that a pod without a record in the datastore was deleted. */
  readonly isPast: boolean;
}

/** Messages from the network process. It reads attachments from files, which the standalone program writes as well. */
export type FromNetwork =
  | { readonly kind: 'status'; readonly id: number; readonly status: NetworkStatus }
  | { readonly kind: 'show'; readonly id: number; readonly network: ShownParts }
  | { readonly kind: 'flows'; readonly id: number; readonly flows: ShownFlows }
  | { readonly kind: 'isolate'; readonly id: number; readonly isolation: Isolation }
  /** `isReleased` is false while the kernel has policies that this process does not know yet. */
  | { readonly kind: 'release'; readonly id: number; readonly isReleased: boolean }
  | { readonly kind: 'failed'; readonly id: number; readonly reason: string }
  /** Settings that the agent uses itself, when they were read and when they have changed. */
  | { readonly kind: 'settings'; readonly settings: CallSettings }
  /** Pods or endpoints of the node, while policies are enforced on the API, or what netplug-typha serves. */
  | { readonly kind: 'relayed'; readonly of: RelayedObjects; readonly event: RelayedEvent }
  /** How what netplug-typha serves is, again and again. */
  | { readonly kind: 'relayed-states'; readonly states: Readonly<Record<RelayedObjects, RelayState>> }
  /** What netplug-typha serves is given up. */
  | { readonly kind: 'relayed-lost'; readonly of: RelayedObjects }
  /** Records that the agent follows already. */
  | FollowRequest;

/** Objects of the API that the network process sends: `pods` and `endpoints`, of which both need some, or a topic of netplug-typha. */
export type RelayedObjects = string;

/** Settings of the process that serves calls. */
export type CallSettings = Pick<EffectiveSettings, 'logSeverityScreen' | 'warmPoolSize'>;

export interface NetworkStatus {
  readonly standing: NetworkStanding;
  /** Reasons why pods may be without network, a sentence each. */
  readonly failures: readonly string[];
  /**
   * Reasons why the node is not connected with other nodes, a sentence each. Undefined until it was for the first time, and where
   * another plugin connects the nodes.
   */
  readonly disconnections?: readonly string[];
  readonly problems: readonly NodeProblem[];
  /** For how many milliseconds no thread of the process has been free; 0 when one was recently. */
  readonly threadsStuckMs: number;
}

/** Reports whether the process that serves calls follows these records too, and sends them to the network process. */
export function isSharedQuery(query: Query): boolean {
  if (query.kind === 'resources') return query.of === 'IPPool' || query.of === 'Node';
  if (query.kind === 'derived-resources') return query.from === 'Namespace';
  return query.kind === 'block-routes';
}
