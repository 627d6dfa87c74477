import { NetplugError } from '../../src/base/errors.ts';
import type { OrchReader } from '../../src/cni/orch-reader.ts';
import type { PodFacts } from '../../src/model/pod.ts';

/** An orchestrator that knows these pods and no nodes; the events it receives are in `events`. */
export function memoryOrch(
  pods: readonly PodFacts[] = [],
): OrchReader & AsyncDisposable & { readonly events: readonly string[] } {
  const events: string[] = [];
  const unknown = (what: string): NetplugError => new NetplugError('orch/not-found', `Cannot read ${what}`);
  return {
    events,
    readPod: async ({ namespace, name }) => {
      const pod = pods.find((each) => each.namespace === namespace && each.name === name);
      return pod === undefined ? Promise.reject(unknown(`pod "${namespace}/${name}"`)) : Promise.resolve(pod);
    },
    readPodCidrs: async (node) => Promise.reject(unknown(`node "${node}"`)),
    recordWarning: async (_, message) => {
      events.push(message);
      return Promise.resolve();
    },
    [Symbol.asyncDispose]: async () => Promise.resolve(),
  };
}

/** A pod without anything special. */
export function podFactsOf(namespace: string, name: string, more: Partial<PodFacts> = {}): PodFacts {
  return {
    namespace,
    name,
    uid: `uid-of-${name}`,
    labels: {},
    annotations: {},
    namespaceAnnotations: {},
    serviceAccount: undefined,
    ports: [],
    ...more,
  };
}
