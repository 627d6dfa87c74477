import { readAnnotations } from '../model/annotation-keys.ts';
import type { PodFacts } from '../model/pod.ts';
import { type ApiObject, isLeaving } from './objects.ts';
import { type MirrorPorts, ObjectMirror } from './object-mirror.ts';
import type { OrchApi } from './orch-api.ts';
import { ALL_NAMES, NAMESPACES, PODS, podsOf } from './paths.ts';
import { ownFactsOf, readPodFacts } from './read-facts.ts';

/** A pod as the runtime names it. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string | undefined;
}

/** Facts that are remembered of a pod. */
interface KeptPod {
  readonly facts: Omit<PodFacts, 'namespaceAnnotations'>;
  readonly isLeaving: boolean;
}

/** The pods of one node and the annotations of namespaces, kept in memory so that an ADD need not wait for the API. */
export class PodWatcher {
  readonly #api: OrchApi;
  readonly #pods: ObjectMirror<KeptPod>;
  readonly #namespaces: ObjectMirror<PodFacts['namespaceAnnotations']>;

  constructor(node: string, ports: MirrorPorts) {
    this.#api = ports.api;
    this.#pods = new ObjectMirror(ports, { collection: PODS, options: podsOf(node), keep: keptPod });
    // Of a namespace only metadata is asked for, and of that only annotations are kept.
    this.#namespaces = new ObjectMirror(ports, {
      collection: NAMESPACES,
      options: ALL_NAMES,
      keep: ({ metadata }) => readAnnotations(metadata.annotations),
    });
  }

  /** Watches until the signal aborts. While it does not run, or the API is unavailable, `readPod` reads every pod. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#pods.run(signal), this.#namespaces.run(signal)]);
  }

  /**
   * Returns the cached pod when it has the uid, is not being deleted, and the watch is current. Otherwise reads it from
   * the API. @throws orch/not-found, store/unavailable, store/refused
   */
  async readPod(pod: PodName, signal: AbortSignal): Promise<PodFacts> {
    const kept = pod.uid === undefined ? undefined : this.#pods.find(pod.namespace, pod.name);
    const namespaceAnnotations = this.#namespaces.find('', pod.namespace);
    const isMeant = kept !== undefined && kept.facts.uid === pod.uid && !kept.isLeaving;
    if (isMeant && namespaceAnnotations !== undefined) return { ...kept.facts, namespaceAnnotations };
    return readPodFacts(this.#api, pod, signal);
  }
}

function keptPod(pod: ApiObject): KeptPod {
  return { facts: ownFactsOf(pod), isLeaving: isLeaving(pod) };
}
