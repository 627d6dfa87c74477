import { isDeepStrictEqual } from 'node:util';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { NodeName } from '../../model/names.ts';
import { type NodeReportSpec, PROBLEMS_LABEL, worstOf } from '../../model/node-report.ts';
import { API_VERSION } from '../../model/resource.ts';
import { ownedBy } from './netplug-nodes.ts';
import { getNode, writeRefused } from './publish-node.ts';
import { collectionOf } from './resource-objects.ts';
import { found } from './unreadable.ts';

/**
 * Writes the report of the node, which the garbage collector removes with its Node. Does nothing when another writer was
 * faster. @throws resource/not-found, resource/invalid
 */
export async function publishReport(
  api: OrchApi,
  { node, report: spec }: { readonly node: NodeName; readonly report: NodeReportSpec },
  signal: AbortSignal,
): Promise<void> {
  const ownerReferences = ownedBy(await getNode(api, node, signal));
  const collection = collectionOf('NodeReport');
  const [current] = found(await api.get(collection, node, signal));
  const worst = worstOf(spec);
  const { [PROBLEMS_LABEL]: _, ...others } = current?.metadata.labels ?? {};
  const labels = { ...others, ...(worst === undefined ? {} : { [PROBLEMS_LABEL]: worst }) };
  const metadata = { ...current?.metadata, name: node, labels, ownerReferences };
  if (isDeepStrictEqual([current?.metadata, current?.['spec']], [metadata, spec])) return;
  const request = { collection, object: { apiVersion: API_VERSION, kind: 'NodeReport', metadata, spec } };
  const answer = await (current === undefined ? api.create(request, signal) : api.replace(request, signal));
  if (answer.outcome !== 'invalid' && answer.outcome !== 'gone') return;
  throw writeRefused(`NodeReport "${node}"`, { node, message: answer.message });
}
