import { isStaticPodUid } from './pod.ts';
import { endpointIdOf, endpointKey, type WorkloadEndpoint, withContentOf } from './workload-endpoint.ts';

/**
 * Returns the endpoint of one pod of the orchestrator on one node, and with it the addresses that count as those of the pod:
 * what the plugin has recorded when it gave them, else what the kubelet reports. Nothing that users write adds an address or
 * takes one away. A record is there while the pod holds the addresses, also when the orchestrator has forgotten the pod: then it
 * has the labels that were known last.
 */
export function joinEndpoint(
  pod: WorkloadEndpoint | undefined,
  record: WorkloadEndpoint | undefined,
): WorkloadEndpoint | undefined {
  if (pod === undefined || record === undefined) return record ?? pod;
  // The next pod of the name has no addresses yet, and the one before still has its own.
  if (!isRecordOf(record, pod)) return pod.spec.ipNetworks.length > 0 ? pod : record;
  const { areAddressesReported: isReported, isTerminating } = pod.spec;
  const { metadata, spec } = withContentOf(record, pod);
  return {
    ...record,
    metadata: { ...metadata, ...pod.metadata },
    spec: {
      ...spec,
      ...(isReported === true && isReporting(pod, record) ? { areAddressesReported: true } : {}),
      ...(isTerminating === true ? { isTerminating } : {}),
    },
  };
}

/** Reports whether the node recorded the endpoint for this very pod. The pod that stands for a static pod has another UID. */
export function isRecordOf({ metadata, spec }: WorkloadEndpoint, pod: WorkloadEndpoint): boolean {
  if (spec.node !== pod.spec.node || spec.pod !== pod.spec.pod || metadata.namespace !== pod.metadata.namespace)
    return false;
  return pod.spec.podUID === undefined ? isStaticPodUid(spec.podUID) : spec.podUID === pod.spec.podUID;
}

function isReporting(pod: WorkloadEndpoint, record: WorkloadEndpoint): boolean {
  return record.spec.ipNetworks.every((text) => pod.spec.ipNetworks.includes(text));
}

export interface JoinedEndpoint {
  /** That of `endpointKey`. */
  readonly key: string;
  readonly value: WorkloadEndpoint | undefined;
}

/** Endpoints as the orchestrator and the nodes report them, joined change by change. */
export class EndpointJoin {
  readonly #known = { pods: new Map<string, WorkloadEndpoint>(), endpoints: new Map<string, WorkloadEndpoint>() };

  /** Takes a change of one pod or record, and returns the endpoints that it may concern. */
  take(
    side: 'pods' | 'endpoints',
    { before, after }: { readonly before: WorkloadEndpoint | undefined; readonly after: WorkloadEndpoint | undefined },
  ): readonly JoinedEndpoint[] {
    const [last, now] = [before, after].map((each) => each && endpointKey(endpointIdOf(each)));
    if (last !== undefined) this.#known[side].delete(last);
    if (now !== undefined && after !== undefined) this.#known[side].set(now, after);
    const keys = [...new Set([last, now])].filter((key) => key !== undefined);
    const { pods, endpoints } = this.#known;
    return keys.map((key) => ({ key, value: joinEndpoint(pods.get(key), endpoints.get(key)) }));
  }
}
