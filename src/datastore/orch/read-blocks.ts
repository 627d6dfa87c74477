import type { IpBlock } from '../../model/ip-block.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../../model/ipam-configuration.ts';
import type { ResourceKind } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import {
  type EndpointId,
  endpointIdOf,
  parseEndpointName,
  type WorkloadEndpoint,
} from '../../model/workload-endpoint.ts';
import { type Cidr, cidrsOverlap, compareCidrs } from '../../net/cidr.ts';
import type { Answer } from '../../orch-api/answers.ts';
import type { ApiObject } from '../../orch-api/objects.ts';
import type { OrchApi } from '../../orch-api/orch-api.ts';
import { isObjectName, PODS } from '../../orch-api/paths.ts';
import { borrowersOf } from '../borrowers.ts';
import { compareText } from '../order.ts';
import type { Claim, NodeView, Stored } from '../store.ts';
import { BLOCKS, readBlock, readClaim } from './block-objects.ts';
import { blockObjectName, holderLabel } from './names.ts';
import { readEndpoints } from './pod-endpoints.ts';
import { collectionOf, resourceReader } from './resource-objects.ts';
import { insist, sortOut, type Unreadable } from './unreadable.ts';

/** How many blocks are fetched at the same moment. */
const AT_ONCE = 8;

/**
 * Six requests at the same moment, five without an endpoint. They are not of one version of the API's records, and need
 * not be: what is decided on them is written only to blocks that are still as they were read.
 */
export async function readNodeView(
  api: OrchApi,
  { node, endpoint }: { readonly node: NodeName; readonly endpoint: EndpointId | undefined },
  signal: AbortSignal,
): Promise<NodeView> {
  const list = async (kind: ResourceKind): Promise<readonly ApiObject[]> => api.list(collectionOf(kind), {}, signal);
  const find = async (kind: ResourceKind, name: string): Promise<readonly ApiObject[]> =>
    isObjectName(name) ? found(await api.get(collectionOf(kind), name, signal)) : [];
  const [pools, reservations, configs, nodes, blocks, pods] = await Promise.all([
    list('IPPool'),
    list('IPReservation'),
    find('IPAMConfiguration', IPAM_CONFIGURATION_NAME),
    find('Node', node),
    api.list(BLOCKS, { labelSelector: holderLabel(node) }, signal),
    findPod(api, endpoint, signal),
  ]);
  const read = {
    pools: sortOut(pools, resourceReader('IPPool')),
    reservations: sortOut(reservations, resourceReader('IPReservation')),
    config: sortOut(configs, resourceReader('IPAMConfiguration')),
    nodes: sortOut(nodes, resourceReader('Node')),
    blocks: sortOut(blocks, readBlock),
    endpoints: sortOut(pods.flatMap(readEndpoints), (each) => each),
  };
  const held = read.blocks.good.sort(byCidr);
  return {
    pools: read.pools.good
      .map((value) => ({ value, version: value.metadata.resourceVersion ?? '' }))
      .sort((a, b) => compareText(a.value.metadata.name, b.value.metadata.name)),
    reservations: read.reservations.good.sort((a, b) => compareText(a.metadata.name, b.metadata.name)),
    config: { ...DEFAULT_IPAM_CONFIGURATION, ...read.config.good[0]?.spec },
    node: read.nodes.good[0],
    // Labels only say where to look.
    owned: held.filter(({ value }) => value.node === node),
    borrowed: held.filter(({ value }) => borrowersOf(value).has(node)),
    endpoint: read.endpoints.good.find(({ value }) => endpoint !== undefined && isEndpoint(value, endpoint)),
    problems: Object.values(read).flatMap(({ problems }) => problems),
  };
}

/** Only names and labels are fetched: there may be thousands of blocks. */
export async function listClaims(
  api: OrchApi,
  within: readonly Cidr[],
  signal: AbortSignal,
): Promise<readonly Claim[]> {
  if (within.length === 0) return [];
  const claims = (await api.list(BLOCKS, { only: 'names' }, signal)).map(readClaim);
  return claims
    .filter((claim) => claim !== undefined)
    .filter((claim) => within.some((cidr) => cidrsOverlap(cidr, claim.cidr)))
    .sort((a, b) => compareCidrs(a.cidr, b.cidr));
}

export async function getBlocks(
  api: OrchApi,
  cidrs: readonly Cidr[],
  signal: AbortSignal,
): Promise<readonly Stored<IpBlock>[]> {
  const blocks: Stored<IpBlock>[] = [];
  for (let from = 0; from < cidrs.length; from += AT_ONCE) {
    const names = cidrs.slice(from, from + AT_ONCE).map(blockObjectName);
    const answers = await Promise.all(names.map(async (name) => api.get(BLOCKS, name, signal)));
    blocks.push(...answers.flatMap(found).map((object) => insist(readBlock(object))));
  }
  return blocks;
}

export async function listBlocks(
  api: OrchApi,
  signal: AbortSignal,
): Promise<{ blocks: readonly Stored<IpBlock>[]; problems: readonly string[] }> {
  const { good, problems } = sortOut(await api.list(BLOCKS, {}, signal), readBlock);
  return { blocks: good.sort(byCidr), problems };
}

/** The endpoints of the pods of one node, or of all. */
export async function podEndpoints(
  api: OrchApi,
  node: NodeName | undefined,
  signal: AbortSignal,
): Promise<readonly (Stored<WorkloadEndpoint> | Unreadable)[]> {
  const options = node === undefined ? {} : { fieldSelector: `spec.nodeName=${node}` };
  return (await api.list(PODS, options, signal)).flatMap(readEndpoints);
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

function found(answer: Answer<ApiObject>): ApiObject[] {
  return answer.outcome === 'ok' ? [answer.value] : [];
}

function byCidr(a: Stored<IpBlock>, b: Stored<IpBlock>): number {
  return compareCidrs(a.value.cidr, b.value.cidr);
}
