import { isDeepStrictEqual } from 'node:util';
import { NetplugError } from '../base/errors.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { API_VERSION } from '../model/resource.ts';
import { withFacts } from './node-facts.ts';
import type { NodeFacts } from './node-status-store.ts';
import type { ResourceStore } from './resource-store.ts';
import { isOvertaken } from './resource-errors.ts';

/** Number of times that a conflict with concurrent writers of the node is retried. */
const PUBLISH_TRIES = 8;

/** Implements `NodeStatusStore.publishNode` where netplug stores the nodes. Each write names the version that it changes. */
export async function publishNodeResource(
  store: ResourceStore,
  { node: name, facts }: { readonly node: NodeName; readonly facts: NodeFacts },
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; attempt < PUBLISH_TRIES; attempt += 1) {
    const before = await store.findResource({ kind: 'Node', name }, signal);
    const after = withFacts(before ?? newNode(name), facts);
    if (isDeepStrictEqual(before, after)) return;
    try {
      if (before === undefined) await store.createResource(after, signal);
      else await store.updateResource(after, signal);
      return;
    } catch (cause) {
      if (!isOvertaken(cause)) throw cause;
    }
  }
  throw new NetplugError('store/conflict', `Cannot publish node "${name}": other programs keep changing its resource`, {
    hint: 'Find the program that writes it',
    facts: { node: name },
  });
}

function newNode(name: string): Node {
  return { apiVersion: API_VERSION, kind: 'Node', metadata: { name }, spec: {} };
}
