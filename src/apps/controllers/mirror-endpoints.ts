import { isDeepStrictEqual } from 'node:util';
import { resourceChanged } from '../../datastore/resource-errors.ts';
import type { Stored } from '../../datastore/allocation-store.ts';
import { isRecordOf } from '../../model/join-endpoint.ts';
import { namespaceProfile } from '../../model/policy-names.ts';
import { type WorkloadEndpoint, withContentOf } from '../../model/workload-endpoint.ts';
import type { Controller } from './controller.ts';
import { keyedController } from './keyed-controller.ts';
import { type Feed, type ObservedChange, podIn } from './observed.ts';

const PODS: Feed = { side: 'orchestrator', query: { kind: 'pods' } };
const ENDPOINTS: Feed = { side: 'datastore', query: { kind: 'endpoints' } };

export interface EndpointUpdate {
  readonly kind: 'update';
  readonly endpoint: WorkloadEndpoint;
  readonly over: Stored<WorkloadEndpoint>;
}

/** Keeps what policies need of pods in their endpoints, which the plugin writes and removes. */
export function endpointController(): Controller {
  return keyedController<EndpointUpdate>({
    name: 'workloadendpoint',
    feeds: [ENDPOINTS, PODS],
    keysOf: podsOf,
    plan: (pod, observed) => {
      const [wanted] = observed.endpointsOf(PODS, pod);
      const changes = observed
        .endpointsOf(ENDPOINTS, pod)
        .flatMap((over) => (wanted === undefined ? [] : (planEndpointUpdate(wanted.value, over) ?? [])));
      return { changes };
    },
    apply: async ({ endpoint, over }, { store }, signal) => {
      const outcome = await store.commit([{ kind: 'put-endpoint', endpoint, over }], signal);
      if (outcome === 'conflict') throw resourceChanged({ kind: 'Node', name: endpoint.spec.node });
    },
  });
}

/**
 * Returns what makes the endpoint as the pod is; undefined when it is, belongs to another pod of the name, or to a network
 * without `policy.type` `orch`, whose endpoints have a profile of their own. Pure.
 */
export function planEndpointUpdate(pod: WorkloadEndpoint, over: Stored<WorkloadEndpoint>): EndpointUpdate | undefined {
  const { metadata, spec } = over.value;
  if (!isRecordOf(over.value, pod) || !spec.profiles.includes(namespaceProfile(metadata.namespace ?? 'default')))
    return undefined;
  const { serviceAccountName, ports, profiles } = pod.spec;
  const labels = pod.metadata.labels ?? {};
  const isSame =
    serviceAccountName === spec.serviceAccountName &&
    isDeepStrictEqual([labels, ports, profiles], [metadata.labels, spec.ports, spec.profiles]);
  if (isSame) return undefined;
  return { kind: 'update', endpoint: withContentOf(over.value, pod), over };
}

function podsOf({ before, after }: ObservedChange): readonly string[] {
  const [old, now] = [podIn(before), podIn(after)];
  if (now === undefined) return old === undefined ? [] : [old];
  return old === undefined || old === now ? [now] : [old, now];
}
