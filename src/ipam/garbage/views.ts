import type { NodeName } from '../../model/names.ts';
import type { PodPresence } from './pod-presence.ts';

/**
 * Standing of a node. `present`: the orchestrator has it, and pods that were deleted may still run there. `out-of-service`: an
 * administrator says that nothing runs there any more, and its kubelet is silent. `foreign`: it is no node of the orchestrator
 * and was none, as far as the records say.
 */
export type NodeStanding = 'present' | 'out-of-service' | 'gone' | 'foreign';

/** State that the orchestrator's API reported last, from watches. May lag behind. */
export interface CachedView {
  readonly findPod: (namespace: string, name: string) => PodPresence | undefined;
  readonly hasNode: (name: string) => boolean;
  /** The nodes of which the datastore remembers that the orchestrator had them. */
  readonly recordedNodes: () => readonly NodeName[];
}

/** State that the orchestrator's API has at the moment of the call, and what the datastore remembers. Throws store/*. */
export interface LiveView {
  readonly findPod: (namespace: string, name: string, signal: AbortSignal) => Promise<PodPresence | undefined>;
  readonly standingOf: (node: NodeName, signal: AbortSignal) => Promise<NodeStanding>;
}
