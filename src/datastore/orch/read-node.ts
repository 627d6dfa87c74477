import type { AnyResource } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { type EndpointId, endpointIdOf } from '../../model/workload-endpoint.ts';
import { type ApiObject, isMirrorPod } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { isObjectName, PODS } from '../../kube/paths.ts';
import { borrowersOf } from '../borrowers.ts';
import type { Decoded } from '../follow.ts';
import { settingQueries, settingsFrom } from '../node-settings.ts';
import { compareEndpointIds } from '../order.ts';
import type { EndpointListing, NodeView } from '../allocation-store.ts';
import { BLOCKS, readBlock } from './block-objects.ts';
import { endpointObjectName, ENDPOINTS, endpointsOf, readEndpoint } from './endpoint-objects.ts';
import { holderLabel } from './names.ts';
import { byCidr } from './read-blocks.ts';
import { collectionOf, seenBy } from './resource-objects.ts';
import { found } from './unreadable.ts';
import { sortOut } from '../unreadable.ts';

/**
 * Seven requests at the same moment, six without an endpoint. They are not of one version of the API's records, and need
 * not be: what is decided on them is written only to blocks that are still as they were read.
 */
export async function readNodeView(
  api: OrchApi,
  { node, endpoint }: { readonly node: NodeName; readonly endpoint: EndpointId | undefined },
  signal: AbortSignal,
): Promise<NodeView> {
  const readSettings = async (): Promise<readonly Decoded<AnyResource>[]> => {
    const each = await Promise.all(settingQueries(node).map(async (query) => readQuery(api, query, signal)));
    return each.flat();
  };
  const [seen, blocks, objects] = await Promise.all([
    readSettings(),
    api.list(BLOCKS, { labelSelector: holderLabel(node) }, signal),
    endpoint === undefined ? [] : api.get(ENDPOINTS, endpointObjectName(endpoint), signal).then(found),
  ]);
  const settings = settingsFrom(seen);
  const read = {
    blocks: sortOut(blocks, readBlock),
    endpoints: sortOut(objects, readEndpoint),
  };
  const held = read.blocks.good.sort(byCidr);
  return {
    ...settings,
    // Labels only say where to look.
    owned: held.filter(({ value }) => value.node === node),
    borrowed: held.filter(({ value }) => borrowersOf(value).has(node)),
    // Versions of the API are not to be compared: there, only what is missing shows that it has been restored.
    rollbacks: 0,
    endpoint: read.endpoints.good[0],
    problems: [...settings.problems, ...read.blocks.problems, ...read.endpoints.problems],
  };
}

async function readQuery(
  api: OrchApi,
  { of: kind, name }: ReturnType<typeof settingQueries>[number],
  signal: AbortSignal,
): Promise<readonly Decoded<AnyResource>[]> {
  const collection = collectionOf(kind);
  if (name === undefined) return (await api.list(collection, {}, signal)).map((object) => seenBy(object, kind));
  if (!isObjectName(name)) return [];
  return found(await api.get(collection, name, signal)).map((object) => seenBy(object, kind));
}

/** Returns the endpoints of one node; for tools those of all nodes, with the pods that exist. */
export async function listRecordedEndpoints(
  api: OrchApi,
  node: NodeName | undefined,
  signal: AbortSignal,
): Promise<EndpointListing> {
  const [objects, pods] = await Promise.all([
    api.list(ENDPOINTS, node === undefined ? {} : endpointsOf(node), signal),
    node === undefined ? api.list(PODS, { only: 'names' }, signal) : undefined,
  ]);
  const { good, problems } = sortOut(objects, readEndpoint);
  const endpoints = good
    // The label only says where to look.
    .filter(({ value }) => node === undefined || value.spec.node === node)
    .sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
  return { endpoints, problems, ...(pods === undefined ? {} : { pods: new Map(pods.map(identityOf)) }) };
}

function identityOf(pod: ApiObject): [pod: string, uid: string | undefined] {
  const { namespace = '', name, uid = '' } = pod.metadata;
  return [`${namespace}/${name}`, isMirrorPod(pod) ? undefined : uid];
}
