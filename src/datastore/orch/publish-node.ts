import { NetplugError } from '../../base/errors.ts';
import type { NodeName } from '../../model/names.ts';
import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi, Patch } from '../../kube/orch-api.ts';
import { isObjectName, NODES } from '../../kube/paths.ts';
import type { NodeFacts } from '../node-status-store.ts';
import { resourceContested, resourceNotFound } from '../resource-errors.ts';
import { NETPLUG_NODES } from '../../model/netplug-node.ts';
import { type NetplugNode, netplugNodeOf, publicationFault } from './netplug-nodes.ts';
import { annotationChanges } from './node-annotations.ts';
import { UPDATE_TRIES } from './orch-resources.ts';
import { found } from './unreadable.ts';

/**
 * Writes the facts as annotations of the orchestrator's own Node, and then what other nodes need of that Node to its
 * NetplugNode. After a write it reads both again, so that of several writers the last one leaves them in agreement.
 */
export async function publishNode(
  api: OrchApi,
  { node, facts }: { readonly node: NodeName; readonly facts: NodeFacts },
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
    const current = await getNode(api, node, signal);
    const annotations = annotationChanges(facts, current.metadata.annotations ?? {});
    const isSame = Object.keys(annotations).length === 0;
    const patch = { kind: 'merge', body: { metadata: { annotations } } } as const;
    const wanted = netplugNodeOf(isSame ? current : await patchNode(api, { node, patch }, signal));
    const there = await api.get(NETPLUG_NODES, node, signal);
    const [object] = found(there);
    if (publicationFault(object, wanted) === undefined) return;
    await writeNetplugNode(api, { wanted, current: object }, signal);
  }
  throw resourceContested({ kind: 'Node', name: node });
}

/** Does nothing when another writer was faster. */
async function writeNetplugNode(
  api: OrchApi,
  { wanted, current }: { readonly wanted: NetplugNode; readonly current: ApiObject | undefined },
  signal: AbortSignal,
): Promise<void> {
  // Finalizers and other metadata stay.
  const object = { ...wanted, metadata: { ...current?.metadata, ...wanted.metadata } };
  const request = { collection: NETPLUG_NODES, object };
  const answer = await (current === undefined ? api.create(request, signal) : api.replace(request, signal));
  if (answer.outcome !== 'invalid' && answer.outcome !== 'gone') return;
  const node = wanted.metadata.name;
  throw writeRefused(`NetplugNode "${node}"`, { node, message: answer.message });
}

/** @throws resource/not-found */
export async function getNode(api: OrchApi, node: NodeName, signal: AbortSignal): Promise<ApiObject> {
  if (!isObjectName(node)) throw resourceNotFound({ kind: 'Node', name: node });
  return insistOnNode(node, await api.get(NODES, node, signal));
}

/** Writes by way of the status: it takes annotations as well, and the right to it is not the right to the whole node. */
export async function patchNode(
  api: OrchApi,
  { node, patch }: { readonly node: NodeName; readonly patch: Patch },
  signal: AbortSignal,
): Promise<ApiObject> {
  return insistOnNode(node, await api.patch({ collection: NODES, name: node, subresource: 'status' }, patch, signal));
}

function insistOnNode(node: NodeName, answer: ApiAnswer<ApiObject>): ApiObject {
  if (answer.outcome === 'ok') return answer.value;
  if (answer.outcome === 'not-found') throw resourceNotFound({ kind: 'Node', name: node });
  throw writeRefused(`Node "${node}"`, { node, message: answer.message });
}

export function writeRefused(
  what: string,
  { node, message }: { readonly node: string; readonly message: string },
): NetplugError {
  return new NetplugError('resource/invalid', `Cannot write ${what}: the API refuses it: ${message}`, {
    hint: 'Look for an admission webhook that refuses it',
    facts: { node },
  });
}
