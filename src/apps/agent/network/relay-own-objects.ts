import { keepRunning, type RetryPorts } from '../../../base/back-off.ts';
import { repeat } from '../../../base/clock.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { ListOptions, OrchApi } from '../../../kube/orch-api.ts';
import type { Collection } from '../../../kube/paths.ts';
import type { RelayedEvent } from '../../../kube/shared-watches.ts';
import { RELAY_BEAT_MS } from '../../../kube/watch-relay.ts';
import type { NodeName } from '../../../model/names.ts';

interface RelayPorts extends RetryPorts {
  readonly api: Pick<OrchApi, 'sharedWatch'>;
  readonly send: (event: RelayedEvent) => void;
}

/** Objects that policies need of all nodes, and the process that serves calls those of its own node. */
export interface RelayedKind {
  readonly collection: Collection;
  readonly options: ListOptions;
  /** Field of the spec that names the node. */
  readonly nodeField: string;
}

/**
 * Sends the objects of the node to the process that serves calls, from the watch of those of all nodes that policies need. Runs
 * until the signal aborts.
 */
export async function relayOwnObjects(
  { api, send, ...ports }: RelayPorts,
  { collection, options, nodeField, node }: RelayedKind & { readonly node: NodeName },
  signal: AbortSignal,
): Promise<void> {
  const isOwn = (object: ApiObject | undefined): boolean => fieldOf(object?.['spec'], nodeField) === node;
  const ifOwn = (object: ApiObject | undefined): ApiObject | undefined => (isOwn(object) ? object : undefined);
  let isOpen = false;
  /** The version of the last event; undefined before the objects are listed. */
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
      for await (const event of api.sharedWatch(collection, { ...options, onStream }, signal)) {
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

function fieldOf(spec: unknown, name: string): unknown {
  return typeof spec === 'object' && spec !== null ? Object.getOwnPropertyDescriptor(spec, name)?.value : undefined;
}
