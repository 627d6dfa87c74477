import type { RelayedObjects } from '../apps/agent/network-channel.ts';
import { ENDPOINTS, endpointsOf } from '../datastore/orch/endpoint-objects.ts';
import { storedObjects } from '../datastore/typha/stored-objects.ts';
import type { ListOptions } from '../kube/orch-api.ts';
import { type Collection, PODS, podsOf } from '../kube/paths.ts';
import type { NodeName } from '../model/names.ts';

/** A network process that is busy for seconds has the objects of servers nonetheless. */
const FANNED_OUT_SILENCE_MS = 15_000;

/** Objects that the network process may send to the process that serves calls, and how that one watches them otherwise. */
interface Relayed {
  readonly of: RelayedObjects;
  readonly collection: Collection;
  readonly options: ListOptions;
  /** Time without a message after which they count as lost; a short one unless given. */
  readonly silenceMs?: number;
}

export function relayedObjects(node: NodeName, isFannedOut: boolean): readonly Relayed[] {
  if (isFannedOut)
    return storedObjects(node).map(({ topic, collection, options }) => ({
      of: topic,
      collection,
      options,
      silenceMs: FANNED_OUT_SILENCE_MS,
    }));
  return [
    { of: 'pods', collection: PODS, options: podsOf(node) },
    { of: 'endpoints', collection: ENDPOINTS, options: endpointsOf(node) },
  ];
}
