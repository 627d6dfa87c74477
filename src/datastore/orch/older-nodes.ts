import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { NODES } from '../../kube/paths.ts';
import { hasFacts } from './node-annotations.ts';
import { found } from './unreadable.ts';

/**
 * Returns the Nodes that have an agent and no NetplugNode: the agent is of a build that writes annotations alone. One
 * listing of metadata when a watch starts, and one request for each node that is found.
 */
export async function olderNodes(
  api: OrchApi,
  isPublished: (name: string) => boolean,
  signal: AbortSignal,
): Promise<readonly ApiObject[]> {
  const nodes = await api.list(NODES, { only: 'names' }, signal);
  const older = nodes.filter(({ metadata }) => !isPublished(metadata.name) && hasFacts(metadata.annotations ?? {}));
  const objects: ApiObject[] = [];
  for (const { metadata } of older) objects.push(...found(await api.get(NODES, metadata.name, signal)));
  return objects;
}
