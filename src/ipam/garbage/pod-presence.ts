/** Facts that the orchestrator has about a pod that exists. */
export interface PodPresence {
  /** The uids by which the pod may be recorded. None when only its name tells: a mirror pod may be one of several in a row. */
  readonly uids: readonly string[];
  readonly node: string;
  /** Succeeded or failed: its containers have ended for good. */
  readonly isFinished: boolean;
}

/** The pod and node of a record. */
export interface PodHolder {
  readonly podUid?: string | undefined;
  readonly node: string;
}

/** Reports whether the pod that has the name of the holder's pod is that pod, and may still use the address. */
export function isHeldBy(pod: PodPresence | undefined, { podUid, node }: PodHolder): boolean {
  if (pod === undefined || pod.isFinished) return false;
  return podUid === undefined || pod.uids.length === 0 ? pod.node === node : pod.uids.includes(podUid);
}
