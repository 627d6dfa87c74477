import * as v from 'valibot';

const count = v.nullish(v.number(), 0);
const workload = v.looseObject({
  kind: v.nullish(v.string(), ''),
  metadata: v.looseObject({ generation: count }),
  spec: v.looseObject({ replicas: v.nullish(v.number(), 1) }),
  status: v.looseObject({
    observedGeneration: count,
    desiredNumberScheduled: count,
    updatedNumberScheduled: count,
    numberAvailable: count,
    replicas: count,
    updatedReplicas: count,
    availableReplicas: count,
  }),
});

/** Progress of a DaemonSet, Deployment or StatefulSet. */
export interface WorkloadState {
  readonly desired: number;
  readonly updated: number;
  readonly available: number;
  /** Whether the counts are of the last change. */
  readonly isObserved: boolean;
  /** Description of what is not ready yet; undefined when it is rolled out. */
  readonly lag: string | undefined;
}

/**
 * Returns the state of such a workload; undefined when the object has none. `pods` says whether its pods follow the
 * template: those that are replaced only when they are deleted are ready in any form. Pure.
 */
export function workloadState(object: unknown, pods: 'following' | 'kept'): WorkloadState | undefined {
  const read = v.safeParse(workload, object);
  if (!read.success) return undefined;
  const { kind, metadata, spec, status } = read.output;
  const isSet = kind === 'DaemonSet';
  const desired = isSet ? status.desiredNumberScheduled : spec.replicas;
  const updated = isSet ? status.updatedNumberScheduled : status.updatedReplicas;
  const available = isSet ? status.numberAvailable : status.availableReplicas;
  const isObserved = status.observedGeneration >= metadata.generation;
  const lagOf = (): string | undefined => {
    if (!isObserved) return 'kube-controller-manager has not observed the last change yet';
    if (isSet && desired === 0) return 'scheduled to no node';
    const ready = pods === 'following' ? Math.min(updated, available) : available;
    const old = isSet ? 0 : status.replicas - updated;
    if (ready >= desired && old <= 0) return undefined;
    // They may be those that are available, where new ones start beside them.
    if (ready >= desired) return `${String(old)} old pods still run`;
    return `${String(updated)} of ${String(desired)} updated, ${String(available)} available`;
  };
  return { desired, updated, available, isObserved, lag: lagOf() };
}
