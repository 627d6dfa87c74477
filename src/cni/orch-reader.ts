import type { PodFacts } from '../model/pod.ts';
import type { Cidr } from '../net/cidr.ts';

/** The part of the orchestrator's API that ADD needs. */
export interface OrchReader {
  /**
   * Returns the pod with the annotations of its namespace. With `uid` the answer may come from a cache; the caller must
   * check that the returned pod has that uid. @throws orch/not-found, store/unavailable, store/refused
   */
  readPod(
    pod: { readonly namespace: string; readonly name: string; readonly uid?: string | undefined },
    signal: AbortSignal,
  ): Promise<PodFacts>;
  /** Returns the pod CIDRs of a node, in the orchestrator's order. @throws orch/not-found, store/unavailable, store/refused */
  readPodCidrs(node: string, signal: AbortSignal): Promise<readonly Cidr[]>;
  /** Records a warning as an event of the pod. @throws store/unavailable, store/refused */
  recordWarning(pod: PodFacts, message: string, signal: AbortSignal): Promise<void>;
}
