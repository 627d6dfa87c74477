import { CLUSTER_INFORMATION_NAME, clusterIdOf, isLocked } from '../../model/cluster-information.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { ResourceOf } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import {
  type EndpointId,
  endpointIdOf,
  parseEndpointName,
  type WorkloadEndpoint,
} from '../../model/workload-endpoint.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { isObjectName, PODS } from '../../kube/paths.ts';
import { borrowersOf } from '../borrowers.ts';
import { compareEndpointIds, compareText } from '../order.ts';
import type { EndpointListing, NodeSettings, NodeView, SettingKind } from '../allocation-store.ts';
import { BLOCKS, readBlock } from './block-objects.ts';
import { holderLabel } from './names.ts';
import { readEndpoints } from './pod-endpoints.ts';
import { byCidr } from './read-blocks.ts';
import { collectionOf, resourceReader } from './resource-objects.ts';
import { found, sortOut, type Unreadable } from './unreadable.ts';

/**
 * Seven requests at the same moment, six without an endpoint. They are not of one version of the API's records, and need
 * not be: what is decided on them is written only to blocks that are still as they were read.
 */
export async function readNodeView(
  api: OrchApi,
  { node, endpoint }: { readonly node: NodeName; readonly endpoint: EndpointId | undefined },
  signal: AbortSignal,
): Promise<NodeView> {
  const list = async (kind: SettingKind): Promise<readonly ApiObject[]> => api.list(collectionOf(kind), {}, signal);
  const find = async (kind: SettingKind, name: string): Promise<readonly ApiObject[]> =>
    isObjectName(name) ? found(await api.get(collectionOf(kind), name, signal)) : [];
  const [pools, reservations, configs, nodes, clusters, blocks, pods] = await Promise.all([
    list('IPPool'),
    list('IPReservation'),
    find('IPAMConfiguration', IPAM_CONFIGURATION_NAME),
    find('Node', node),
    find('ClusterInformation', CLUSTER_INFORMATION_NAME),
    api.list(BLOCKS, { labelSelector: holderLabel(node) }, signal),
    findPod(api, endpoint, signal),
  ]);
  const settings = settingsOf({
    IPPool: pools.map(resourceReader('IPPool')),
    IPReservation: reservations.map(resourceReader('IPReservation')),
    IPAMConfiguration: configs.map(resourceReader('IPAMConfiguration')),
    Node: nodes.map(resourceReader('Node')),
    ClusterInformation: clusters.map(resourceReader('ClusterInformation')),
  });
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

/** The resources that make the settings of a node, each as far as it could be read. */
export type SettingResources = { readonly [K in SettingKind]: readonly (ResourceOf<K> | Unreadable)[] };

export function settingsOf(resources: SettingResources): NodeSettings {
  const read = {
    pools: sortOut(resources.IPPool, (each) => each),
    reservations: sortOut(resources.IPReservation, (each) => each),
    config: sortOut(resources.IPAMConfiguration, (each) => each),
    nodes: sortOut(resources.Node, (each) => each),
    clusters: sortOut(resources.ClusterInformation, (each) => each),
  };
  return {
    pools: read.pools.good
      .map((value) => ({ value, version: value.metadata.resourceVersion ?? '' }))
      .sort((a, b) => compareText(a.value.metadata.name, b.value.metadata.name)),
    reservations: read.reservations.good.sort((a, b) => compareText(a.metadata.name, b.metadata.name)),
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...read.config.good[0]?.spec },
    node: read.nodes.good[0],
    isLocked: isLocked(read.clusters.good[0]),
    clusterId: clusterIdOf(read.clusters.good[0]),
    problems: Object.values(read).flatMap(({ problems }) => problems),
  };
}

/** The pods of one node, or of all, with their endpoints. */
export async function listPodEndpoints(
  api: OrchApi,
  node: NodeName | undefined,
  signal: AbortSignal,
): Promise<EndpointListing> {
  const options = node === undefined ? {} : { fieldSelector: `spec.nodeName=${node}` };
  const pods = await api.list(PODS, options, signal);
  const { good, problems } = sortOut(pods.flatMap(readEndpoints), (each) => each);
  const endpoints = good.sort((a, b) => compareEndpointIds(endpointIdOf(a.value), endpointIdOf(b.value)));
  const identities = pods.map(
    ({ metadata: { namespace = '', name, uid = '' } }) => [`${namespace}/${name}`, uid] as const,
  );
  return { endpoints, problems, pods: new Map(identities) };
}

/** Only endpoints of pods are kept here; of the others blocks and kernel know all there is to know. */
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
