import { NetplugError } from '../../base/errors.ts';
import { KINDS, type ResourceKind, type ResourceOf } from '../../model/kinds.ts';
import { fullId, type ResourceId } from '../../model/resource-id.ts';
import type { Metadata } from '../../model/resource.ts';
import type { ApiObject, ObjectMeta } from '../../kube/objects.ts';
import { type Collection, isObjectName, NODES } from '../../kube/paths.ts';
import { decodeFollowedResource, decodeRecordedResource } from '../stored-resource.ts';
import { type Decoded, decodedFrom } from '../follow.ts';
import { nodeFromObject, nodeProblems } from './node-objects.ts';
import type { Unreadable } from '../unreadable.ts';
import { unreadableObject } from './unreadable.ts';
import { given } from '../../base/given.ts';

/** Returns where the API keeps a kind, of all namespaces: nodes are the orchestrator's own. */
export function collectionOf(kind: ResourceKind): Collection {
  return kind === 'Node' ? NODES : { group: 'netplug.io', version: 'v3', plural: KINDS[kind].plural };
}

/** Returns where in the API a resource of its own lies; undefined for a name that no object can have. */
export function collectionIn(which: ResourceId): Collection | undefined {
  const { kind, namespace, name } = fullId(which);
  if (![namespace ?? name, name].every(isObjectName)) return undefined;
  return { ...collectionOf(kind), ...(namespace === undefined ? {} : { namespace }) };
}

export function resourceReader<K extends ResourceKind>(kind: K): (object: ApiObject) => ResourceOf<K> | Unreadable {
  return (object) => {
    const { which, raw } = recordOf(object, kind);
    const decoded = decodeRecordedResource(which, raw);
    return typeof decoded === 'string' ? unreadable(which, decoded) : decoded;
  };
}

/** Decodes the readable parts: an invalid annotation, which any program may write, does not hide the rest of the node. */
export function seenBy<K extends ResourceKind>(object: ApiObject, kind: K): Decoded<ResourceOf<K>> {
  const { which, raw } = recordOf(object, kind);
  const { value, problem } = decodeFollowedResource(which, raw);
  const problems = [
    ...(problem === undefined ? [] : [unreadable(which, problem).problem]),
    ...(kind === 'Node' && value !== undefined ? nodeProblems(object) : []),
  ];
  return decodedFrom({ value, problems });
}

function recordOf<K extends ResourceKind>(
  object: ApiObject,
  kind: K,
): { readonly which: ResourceId<K>; readonly raw: unknown } {
  const { name, namespace } = object.metadata;
  const metadata = metadataOf(object.metadata);
  return {
    which: { kind, name, ...(namespace === undefined ? {} : { namespace }) },
    raw: kind === 'Node' ? nodeFromObject(object, metadata) : { ...object, metadata },
  };
}

function unreadable({ kind, name, namespace }: ResourceId, why: string): Unreadable {
  return unreadableObject(kind, namespace === undefined ? name : `${namespace}/${name}`, why);
}

/** @throws resource/not-writable: the orchestrator makes and removes its nodes itself */
export function refuseNodeWrite({ kind, name }: ResourceId): void {
  if (kind !== 'Node') return;
  throw new NetplugError('resource/not-writable', `Cannot write Node "${name}": the orchestrator owns its nodes`, {
    hint: `Change its labels with kubectl label node ${name} …`,
    facts: { kind, name },
  });
}

/** Returns the metadata that netplug shows; the rest stays with the API, which keeps it through an update. */
function metadataOf(meta: ObjectMeta): Metadata {
  const { name, namespace, labels, annotations, uid, creationTimestamp, resourceVersion } = meta;
  return {
    name,
    ...given({
      namespace,
      labels: labels ?? undefined,
      annotations: annotations ?? undefined,
      uid,
      creationTimestamp: creationTimestamp ?? undefined,
      resourceVersion,
    }),
  };
}
