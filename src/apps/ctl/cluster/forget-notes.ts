import type { ApiObject } from '../../../kube/objects.ts';
import type { Patch } from '../../../kube/orch-api.ts';
import { type Collection, NODES, PODS } from '../../../kube/paths.ts';
import { findCondition } from '../../../kube/status/conditions.ts';
import { isOwnCondition, isOwnNote, NODE_CONDITIONS } from '../../../model/notes.ts';
import type { PodRun } from './node-pods.ts';

/**
 * Removes what programs of netplug have noted on objects of the cluster: annotations of Nodes and pods, and the
 * conditions of Nodes. What users wrote stays, and so does the condition of another plugin. @throws store/*
 */
export async function forgetNotes(run: PodRun): Promise<void> {
  const { api, signal } = run;
  for (const collection of [NODES, PODS])
    for (const object of await api.list(collection, { only: 'names' }, signal))
      await forgetAnnotations(run, { collection, object });
  for (const node of await api.list(NODES, {}, signal)) {
    const own = Object.values(NODE_CONDITIONS)
      .flatMap((type) => findCondition(node, type) ?? [])
      .filter(isOwnCondition);
    if (own.length === 0) continue;
    const body = { status: { conditions: own.map(({ type }) => ({ $patch: 'delete', type })) } };
    const patch: Patch = { kind: 'strategic', body };
    await api.patch({ collection: NODES, name: node.metadata.name, subresource: 'status' }, patch, signal);
  }
}

async function forgetAnnotations(
  { api, signal }: PodRun,
  { collection, object: { metadata } }: { readonly collection: Collection; readonly object: ApiObject },
): Promise<void> {
  const own = Object.keys(metadata.annotations ?? {}).filter(isOwnNote);
  if (own.length === 0) return;
  const { namespace, name } = metadata;
  const body = { metadata: { annotations: Object.fromEntries(own.map((key) => [key, null])) } };
  const at = { collection: { ...collection, ...(namespace === undefined ? {} : { namespace }) }, name };
  await api.patch(at, { kind: 'merge', body }, signal);
}
