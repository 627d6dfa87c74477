import { isDeepStrictEqual } from 'node:util';
import { given } from '../../base/given.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { NodeName } from '../../model/names.ts';
import { type NodeMachine, type NodeReportSpec, PROBLEMS_LABEL, worstOf } from '../../model/node-report.ts';
import { API_VERSION } from '../../model/resource.ts';
import { NODES, isObjectName } from '../../kube/paths.ts';
import type { NameClaimWrite } from '../node-status-store.ts';
import { resourceContested } from '../resource-errors.ts';
import { insist, Unreadable } from '../unreadable.ts';
import { ownedBy } from './netplug-nodes.ts';
import { UPDATE_TRIES } from './orch-resources.ts';
import { getNode, writeRefused } from './publish-node.ts';
import { collectionOf, resourceReader } from './resource-objects.ts';
import { found } from './unreadable.ts';

const readReport = resourceReader('NodeReport');

/**
 * Writes the report of the node, which the garbage collector removes with its Node. Does nothing when another writer was
 * faster. @throws resource/not-found, resource/invalid
 */
export async function publishReport(
  api: OrchApi,
  { node, report }: { readonly node: NodeName; readonly report: NodeReportSpec },
  signal: AbortSignal,
): Promise<void> {
  const ownerReferences = ownedBy(await getNode(api, node, signal));
  const collection = collectionOf('NodeReport');
  const [current] = found(await api.get(collection, node, signal));
  const spec = { ...report, ...given({ machine: current === undefined ? undefined : machineIn(current) }) };
  const worst = worstOf(report);
  const { [PROBLEMS_LABEL]: _, ...others } = current?.metadata.labels ?? {};
  const labels = { ...others, ...(worst === undefined ? {} : { [PROBLEMS_LABEL]: worst }) };
  const metadata = { ...current?.metadata, name: node, labels, ownerReferences };
  if (isDeepStrictEqual([current?.metadata, current?.['spec']], [metadata, spec])) return;
  const request = { collection, object: { apiVersion: API_VERSION, kind: 'NodeReport', metadata, spec } };
  const answer = await (current === undefined ? api.create(request, signal) : api.replace(request, signal));
  if (answer.outcome !== 'invalid' && answer.outcome !== 'gone') return;
  throw writeRefused(`NodeReport "${node}"`, { node, message: answer.message });
}

/**
 * Implements `NameStore.claimName`. The Node owns the report, if there is one yet: an agent may serve calls before.
 * @throws resource/contested, resource/invalid
 */
export async function claimName(
  api: OrchApi,
  { node, machine, mayReplace }: NameClaimWrite & { readonly node: NodeName },
  signal: AbortSignal,
): Promise<NodeMachine | undefined> {
  const collection = collectionOf('NodeReport');
  for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
    const [current] = found(await api.get(collection, node, signal));
    const holder = current === undefined ? undefined : reportOf(current).machine;
    if (holder !== undefined && !mayReplace(holder)) return holder;
    const object = {
      apiVersion: API_VERSION,
      kind: 'NodeReport',
      metadata: current?.metadata ?? { name: node, ownerReferences: await ownersOf(api, node, signal) },
      spec: { problems: [], ...(current === undefined ? {} : reportOf(current)), machine },
    };
    const answer = await (current === undefined
      ? api.create({ collection, object }, signal)
      : api.replace({ collection, object }, signal));
    if (answer.outcome === 'ok') return undefined;
    if (answer.outcome === 'invalid' || answer.outcome === 'gone')
      throw writeRefused(`NodeReport "${node}"`, { node, message: answer.message });
  }
  throw resourceContested({ kind: 'NodeReport', name: node });
}

async function ownersOf(api: OrchApi, node: NodeName, signal: AbortSignal): Promise<ReturnType<typeof ownedBy>> {
  if (!isObjectName(node)) return [];
  return found(await api.get(NODES, node, signal)).flatMap((owner) => ownedBy(owner));
}

/** A report that cannot be read is replaced. */
function machineIn(object: ApiObject): NodeMachine | undefined {
  const report = readReport(object);
  return report instanceof Unreadable ? undefined : report.spec.machine;
}

/** @throws store/corrupt */
function reportOf(object: ApiObject): NodeReportSpec {
  return insist(readReport(object)).spec;
}
