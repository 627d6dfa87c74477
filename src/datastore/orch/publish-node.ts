import { NetplugError } from '../../base/errors.ts';
import type { NodeName } from '../../model/names.ts';
import type { Answer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi, Patch } from '../../kube/orch-api.ts';
import { isObjectName, NODES } from '../../kube/paths.ts';
import { resourceNotFound } from '../resource-errors.ts';
import type { NodeFacts } from '../node-status-store.ts';
import { annotationChanges } from './node-annotations.ts';

/** Notes the facts on the orchestrator's own Node, in one request, or none when it has them already. */
export async function publishNode(
  api: OrchApi,
  { node, facts }: { readonly node: NodeName; readonly facts: NodeFacts },
  signal: AbortSignal,
): Promise<void> {
  const { metadata } = await getNode(api, node, signal);
  const annotations = annotationChanges(facts, metadata.annotations ?? {});
  if (Object.keys(annotations).length === 0) return;
  await patchNode(api, { node, patch: { kind: 'merge', body: { metadata: { annotations } } } }, signal);
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
): Promise<void> {
  insistOnNode(node, await api.patch({ collection: NODES, name: node, subresource: 'status' }, patch, signal));
}

function insistOnNode(node: NodeName, answer: Answer<ApiObject>): ApiObject {
  if (answer.outcome === 'ok') return answer.value;
  if (answer.outcome === 'not-found') throw resourceNotFound({ kind: 'Node', name: node });
  throw new NetplugError('resource/invalid', `Cannot write Node "${node}": the API refuses it: ${answer.message}`, {
    hint: 'Look for an admission webhook that refuses it',
    facts: { node },
  });
}
