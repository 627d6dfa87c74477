import type { PodFacts } from '../model/pod.ts';
import type { Cidr } from '../net/cidr.ts';

/** What ADD reads of the orchestrator, and the one thing it tells it. */
export interface OrchReader {
  /**
   * The pod with its namespace's annotations; who knows the uid may be spared a question to the orchestrator. Whether
   * the answer has that uid is for the caller to see. @throws orch/not-found, store/unavailable, store/refused
   */
  readPod(
    pod: { readonly namespace: string; readonly name: string; readonly uid?: string | undefined },
    signal: AbortSignal,
  ): Promise<PodFacts>;
  /** The pod CIDRs of a node, in the orchestrator's order. @throws orch/not-found, store/unavailable, store/refused */
  readPodCidrs(node: string, signal: AbortSignal): Promise<readonly Cidr[]>;
  /** Records a warning as an event of the pod. @throws store/unavailable, store/refused */
  recordWarning(pod: PodFacts, message: string, signal: AbortSignal): Promise<void>;
}
