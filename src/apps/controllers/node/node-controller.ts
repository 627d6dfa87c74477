import type { NodeControllerSettings } from '../../../config/controllers-settings.ts';
import { isObjectName, NODES } from '../../../kube/paths.ts';
import type { FollowedRecord } from '../../../datastore/follow.ts';
import { isAutomatic, nodeOfAutomaticName } from '../../../model/automatic-host-endpoint.ts';
import type { Node } from '../../../model/node.ts';
import { showResourceId } from '../../../model/resource-id.ts';
import type { Controller, ControllerPorts } from '../controller.ts';
import { keyedController, type KeyPlan } from '../keyed-controller.ts';
import { type Feed, type Observed, resourcesOfFeed } from '../observed.ts';
import { applyResourceWrite, type ResourceWrite } from '../resource-write.ts';
import { deletionOf, desiredHostEndpoints, planHostEndpoints } from './plan-host-endpoints.ts';
import { isOfOrchestrator, withOrchestratorNode } from './plan-node.ts';

export const NODE_RECORDS: Feed = { side: 'datastore', query: { kind: 'resources', of: 'Node' } };
export const ORCHESTRATOR_NODES: Feed = { side: 'orchestrator', query: { kind: 'resources', of: 'Node' } };
const HOST_ENDPOINTS: Feed = { side: 'datastore', query: { kind: 'resources', of: 'HostEndpoint' } };

/** A write. One that follows from the absence of a node is made only if the node is still absent then. */
type NodeChange = ResourceWrite & { readonly ifGone?: string };

/** Copies labels of the orchestrator's nodes, and keeps automatic host endpoints. */
export function nodeController(settings: NodeControllerSettings): Controller {
  const isOwn = settings.nodeRecords === 'own';
  return keyedController<NodeChange>({
    name: 'node',
    feeds: [NODE_RECORDS, HOST_ENDPOINTS, ...(isOwn ? [ORCHESTRATOR_NODES] : [])],
    keysOf: ({ before, after }) => [before, after].flatMap(nodesOf),
    plan: (name, observed) => planFor(name, observed, settings),
    apply: async (change, ports, signal) => {
      const { ifGone, ...write } = change;
      if (ifGone !== undefined && (await isThere(ifGone, ports, signal))) return;
      await applyResourceWrite(ports.store, write, signal);
    },
  });
}

/** Returns the nodes that the record concerns. */
function nodesOf(record: FollowedRecord | undefined): readonly string[] {
  if (record?.kind !== 'resource') return [];
  if (record.which.kind !== 'HostEndpoint') return [record.which.name];
  const named = nodeOfAutomaticName(record.which.name) ?? [];
  return [named, record.value?.kind === 'HostEndpoint' ? record.value.spec.node : []].flat();
}

/** Pure. Nothing is decided about a node whose record cannot be read. */
export function planFor(name: string, observed: Observed, settings: NodeControllerSettings): KeyPlan<NodeChange> {
  const id = showResourceId({ kind: 'Node', name });
  const record = observed.find(NODE_RECORDS, id);
  const node = nodeIn(record);
  if (record !== undefined && node === undefined) return { changes: [], problems: [record.problem ?? ''] };
  const isOwn = settings.nodeRecords === 'own';
  const original = isOwn ? observed.find(ORCHESTRATOR_NODES, id) : undefined;
  const isGone = original === undefined && (node === undefined || (isOwn && isOfOrchestrator(node)));
  const onNode = resourcesOfFeed(observed, HOST_ENDPOINTS, 'HostEndpoint');
  if (isGone)
    return {
      changes: onNode
        .filter((each) => each.spec.node === name && isAutomatic(each))
        .map((each) => ({ ...deletionOf(each), ifGone: name })),
    };
  if (node === undefined) return { changes: [] };
  const known = nodeIn(original);
  const synced = known === undefined ? node : withOrchestratorNode(node, known, settings.syncLabels);
  // The endpoints follow from the record that this writes.
  if (synced !== node) return { changes: [{ kind: 'update', resource: synced }] };
  const desired = desiredHostEndpoints(withAddressesOf(node, known), settings.hostEndpoints);
  const wanted = new Set(desired.map(({ metadata }) => metadata.name));
  const unreadable = [...wanted].flatMap((each) => unreadableIn(observed.find(HOST_ENDPOINTS, hostEndpointId(each))));
  if (unreadable.length > 0) return { changes: [], problems: unreadable };
  const present = onNode.filter(({ metadata, spec }) => spec.node === name || wanted.has(metadata.name));
  const isNode = (other: string): boolean =>
    observed.find(NODE_RECORDS, showResourceId({ kind: 'Node', name: other })) !== undefined;
  return planHostEndpoints(desired, present, isNode);
}

function hostEndpointId(name: string): string {
  return showResourceId({ kind: 'HostEndpoint', name });
}

function nodeIn(record: FollowedRecord | undefined): Node | undefined {
  return record?.kind === 'resource' && record.value?.kind === 'Node' ? record.value : undefined;
}

function unreadableIn(record: FollowedRecord | undefined): readonly string[] {
  return record === undefined || record.value !== undefined ? [] : [record.problem ?? ''];
}

/** The agent publishes the addresses that it has found, and the orchestrator knows those of the kubelet. */
function withAddressesOf(node: Node, original: Node | undefined): Node {
  const addresses = [...(node.spec.addresses ?? []), ...(original?.spec.addresses ?? [])];
  return { ...node, spec: { ...node.spec, addresses } };
}

/** Asks datastore and orchestrator: while either has the node, it is there. */
async function isThere(
  name: string,
  { store, api }: Pick<ControllerPorts, 'store' | 'api'>,
  signal: AbortSignal,
): Promise<boolean> {
  const record = await store.findResource({ kind: 'Node', name }, signal);
  if (record !== undefined && !isOfOrchestrator(record)) return true;
  return isObjectName(name) && (await api.get(NODES, name, signal)).outcome !== 'not-found';
}
