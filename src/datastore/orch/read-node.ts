import type { AnyResource } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import {
  type EndpointId,
  endpointIdOf,
  parseEndpointName,
  type WorkloadEndpoint,
} from '../../model/workload-endpoint.ts';
import { type ApiObject, isMirrorPod } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { isObjectName, PODS, podsOf } from '../../kube/paths.ts';
import { borrowersOf } from '../borrowers.ts';
import type { Decoded } from '../follow.ts';
import { settingQueries, settingsFrom } from '../node-settings.ts';
import { compareEndpointIds } from '../order.ts';
import type { EndpointListing, NodeView } from '../allocation-store.ts';
import { BLOCKS, readBlock } from './block-objects.ts';
import { holderLabel } from './names.ts';
import { readEndpoints } from './pod-endpoints.ts';
import { byCidr } from './read-blocks.ts';
import { collectionOf, seenBy } from './resource-objects.ts';
import { found, sortOut } from './unreadable.ts';

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
  const [seen, blocks, pods] = await Promise.all([
    readSettings(),
    api.list(BLOCKS, { labelSelector: holderLabel(node) }, signal),
    findPod(api, endpoint, signal),
  ]);
  const settings = settingsFrom(seen);
  const read = {
    blocks: sortOut(blocks, readBlock),
    endpoints: sortOut(pods.flatMap(readEndpoints), (each) => each),
  };
  const held = read.blocks.good.sort(byCidr);
  return {
    ...settings,
    // Labels only say where to look.
    owned: held.filter(({ value }) => value.node === node),
    borrowed: held.filter(({ value }) => borrowersOf(value).has(node)),
    // Versions of the API are not to be compared: there, only what is missing shows that it has been restored.
    rollbacks: 0,
    endpoint: read.endpoints.good.find(({ value }) => endpoint !== undefined && isEndpoint(value, endpoint)),
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

/** The pods of one node, or of all, with their endpoints. */
export async function listPodEndpoints(
  api: OrchApi,
  node: NodeName | undefined,
  signal: AbortSignal,
): Promise<EndpointListing> {
  const options = node === undefined ? {} : podsOf(node);
  const pods = await api.list(PODS, options, signal);
  const { good, problems } = sortOut(pods.flatMap(readEndpoints), (each) => each);
  const endpoints = good.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
  const identities = pods.map((pod) => {
    const { namespace = '', name, uid = '' } = pod.metadata;
    return [`${namespace}/${name}`, isMirrorPod(pod) ? undefined : uid] as const;
  });
  return { endpoints, problems, pods: new Map(identities) };
}

/** Only endpoints of pods are stored here; blocks and kernel suffice for all others. */
async function findPod(
  api: OrchApi,
  endpoint: EndpointId | undefined,
  signal: AbortSignal,
): Promise<readonly ApiObject[]> {
  const parts = endpoint === undefined ? undefined : parseEndpointName(endpoint.name);
  if (endpoint === undefined || parts?.orchestrator !== 'orch') return [];
  if (!isObjectName(parts.workload) || !isObjectName(endpoint.namespace)) return [];
  return found(await api.get({ ...PODS, namespace: endpoint.namespace }, parts.workload, signal));
}

function isEndpoint(endpoint: WorkloadEndpoint, id: EndpointId): boolean {
  const { node, namespace, name } = endpointIdOf(endpoint);
  return node === id.node && namespace === id.namespace && name === id.name;
}
