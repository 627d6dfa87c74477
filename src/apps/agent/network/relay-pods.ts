import { keepRunning, type RetryPorts } from '../../../base/back-off.ts';
import { repeat } from '../../../base/clock.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import type { RelayedEvent } from '../../../kube/shared-watches.ts';
import { RELAY_BEAT_MS } from '../../../kube/watch-relay.ts';
import type { NodeName } from '../../../model/names.ts';

interface RelayPorts extends RetryPorts {
  readonly api: Pick<OrchApi, 'sharedWatch'>;
  readonly send: (event: RelayedEvent) => void;
}

/**
 * Sends the pods of the node to the process that serves calls, from the watch of the pods of all nodes that policies need.
 * Runs until the signal aborts.
 */
export async function relayPods(
  { api, send, ...ports }: RelayPorts,
  node: NodeName,
  signal: AbortSignal,
): Promise<void> {
  const isOwn = (pod: ApiObject | undefined): boolean => nodeOf(pod) === node;
  const ifOwn = (pod: ApiObject | undefined): ApiObject | undefined => (isOwn(pod) ? pod : undefined);
  let isOpen = false;
  /** The version of the last event; undefined before the pods are listed. */
  let version: string | undefined;
  const onStream = (state: 'opened' | 'received' | 'broken'): void => {
    if (state === 'received') return;
    isOpen = state === 'opened';
    send({ kind: 'stream', state });
  };
  const beat = (): void => {
    if (isOpen && version !== undefined) send({ kind: 'changes', changes: [], version });
  };
  repeat(beat, RELAY_BEAT_MS, signal);
  const work = async (): Promise<void> => {
    try {
      for await (const event of api.sharedWatch(PODS, { onStream }, signal)) {
        version = event.version;
        if (event.kind === 'all') send({ ...event, objects: event.objects.filter(isOwn) });
        else {
          // A list shows the next pod of the same name, on another node, as a change of the one before.
          const changes = event.changes
            .filter(({ before, after }) => isOwn(before) || isOwn(after))
            .map(({ before, after }) => ({ before: ifOwn(before), after: ifOwn(after) }));
          if (changes.length > 0) send({ ...event, changes });
        }
      }
    } finally {
      version = undefined;
    }
  };
  // The follower of policies, which has the same watch, logs failures.
  await keepRunning(ports, { work, onFailure: () => undefined }, signal);
}

function nodeOf(pod: ApiObject | undefined): unknown {
  const spec = pod?.['spec'];
  return typeof spec === 'object' && spec !== null && 'nodeName' in spec ? spec.nodeName : undefined;
}
