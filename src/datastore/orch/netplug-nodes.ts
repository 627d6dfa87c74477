import { isDeepStrictEqual } from 'node:util';
import * as v from 'valibot';
import type { ApiObject } from '../../kube/objects.ts';
import { NETPLUG_NODE } from '../../model/netplug-node.ts';
import type { Node } from '../../model/node.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { Decoded } from '../follow.ts';
import { decodeRecordedResource } from '../stored-resource.ts';
import { nodeFromObject } from './node-objects.ts';
import { unreadableObject } from './unreadable.ts';

const Owner = v.looseObject({ apiVersion: v.string(), kind: v.string(), name: v.string(), uid: v.string() });

/** The object that its agent writes for a Node of the orchestrator. The garbage collector removes it with the Node. */
export interface NetplugNode {
  readonly apiVersion: string;
  readonly kind: typeof NETPLUG_NODE;
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly ownerReferences: readonly v.InferOutput<typeof Owner>[];
  };
  readonly spec: Node['spec'];
}

/** Returns the NetplugNode that a Node of the orchestrator asks for. */
export function netplugNodeOf(node: ApiObject): NetplugNode {
  const { name, labels, annotations } = node.metadata;
  return {
    apiVersion: API_VERSION,
    kind: NETPLUG_NODE,
    metadata: { name, labels: labels ?? {}, ownerReferences: ownedBy(node) },
    spec: nodeFromObject(node, { name, annotations: annotations ?? {} }).spec,
  };
}

/** Returns the owners of an object that goes with a Node of the orchestrator. */
export function ownedBy({ metadata: { name, uid = '' } }: ApiObject): NetplugNode['metadata']['ownerReferences'] {
  return [{ apiVersion: 'v1', kind: 'Node', name, uid }];
}

/** Returns why the object does not agree with the Node; a deleted Node of the same name had another uid. */
export function publicationFault(object: ApiObject | undefined, { metadata, spec }: NetplugNode): string | undefined {
  if (object === undefined) return 'it has no NetplugNode';
  const { labels, ownerReferences } = object.metadata;
  if (!isDeepStrictEqual(ownerReferences, metadata.ownerReferences)) return 'its NetplugNode belongs to another Node';
  const isSame = isDeepStrictEqual(labels ?? {}, metadata.labels) && isDeepStrictEqual(object['spec'] ?? {}, spec);
  return isSame ? undefined : 'its NetplugNode says something else than the Node';
}

/**
 * Returns the Node that the object stands for. An object that no Node of its name owns is left out: the garbage collector
 * would never remove it.
 */
export function readNetplugNode(object: ApiObject): Decoded<Node> {
  const { name, labels } = object.metadata;
  const owners = v.safeParse(v.array(Owner), object.metadata['ownerReferences']);
  const isOwned = owners.success && owners.output.some((owner) => owner.kind === 'Node' && owner.name === name);
  if (!isOwned) return { problem: problemOf(name, 'no Node of its name owns it') };
  const metadata = { name, labels: labels ?? {} };
  const raw = { apiVersion: API_VERSION, kind: 'Node', metadata, spec: object['spec'] ?? {} };
  const decoded = decodeRecordedResource({ kind: 'Node', name }, raw);
  return typeof decoded === 'string' ? { problem: problemOf(name, decoded) } : { value: decoded };
}

function problemOf(name: string, why: string): string {
  return unreadableObject(NETPLUG_NODE, name, why).problem;
}
