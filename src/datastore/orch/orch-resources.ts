import { isDeepStrictEqual } from 'node:util';
import { NetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import { type ResourceId, resourceIdOf, showResourceId } from '../../model/resource-id.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import { findBuiltIn, refuseBuiltIn, withBuiltIns } from '../built-in.ts';
import {
  resourceFacts,
  resourceChanged,
  resourceContested,
  resourceExists,
  resourceNotFound,
} from '../resource-errors.ts';
import { nodeProblems } from './node-objects.ts';
import { collectionOf, collectionIn, refuseNodeWrite, resourceReader } from './resource-objects.ts';
import type { ResourceListing, VersionedId } from '../resource-store.ts';
import { insist, sortOut } from '../unreadable.ts';

/** Number of tries of an update without a version while other writers change the resource. */
export const UPDATE_TRIES = 8;

interface Write {
  readonly resource: AnyResource;
  readonly mode: Mode | undefined;
}

export async function listResources<K extends ResourceKind>(
  api: OrchApi,
  kind: K,
  signal: AbortSignal,
): Promise<ResourceListing<K>> {
  const objects = await api.list(collectionOf(kind), {}, signal);
  const { good, problems } = sortOut(objects, resourceReader(kind));
  const resources = withBuiltIns(kind, good);
  return { resources, problems: [...problems, ...(kind === 'Node' ? objects.flatMap(nodeProblems) : [])] };
}

export async function findResource<K extends ResourceKind>(
  api: OrchApi,
  which: ResourceId<K>,
  signal: AbortSignal,
): Promise<ResourceOf<K> | undefined> {
  const builtIn = findBuiltIn(which);
  if (builtIn !== undefined) return builtIn;
  const object = await fetchObject(api, which, signal);
  return object === undefined ? undefined : insist(resourceReader(which.kind)(object));
}

export async function createResource(
  api: OrchApi,
  { resource, mode }: Write,
  signal: AbortSignal,
): Promise<AnyResource> {
  const which = resourceIdOf(resource);
  const { name, labels, annotations } = resource.metadata;
  refuseBuiltIn(which);
  refuseNodeWrite(which);
  const home = collectionIn(which);
  if (home === undefined) throw refusedError(which, 'no object can have that name');
  const object = { ...resource, metadata: { name, labels, annotations } };
  const answer = await api.create({ collection: home, object, mode }, signal);
  const read = resourceReader(which.kind);
  if (answer.outcome === 'ok') return insist(read(answer.value));
  if (answer.outcome !== 'exists') throw refusedError(which, answer.message);
  const there = answer.mayBeOurs ? await fetchObject(api, which, signal) : undefined;
  if (there === undefined || !isDeepStrictEqual(there['spec'], object.spec)) throw resourceExists(which);
  return insist(read(there));
}

/** Reads first, so that finalizers, owners and identity in the metadata survive. */
export async function updateResource(
  api: OrchApi,
  { resource, mode }: Write,
  signal: AbortSignal,
): Promise<AnyResource> {
  const which = resourceIdOf(resource);
  const { labels, annotations, resourceVersion } = resource.metadata;
  refuseBuiltIn(which);
  refuseNodeWrite(which);
  const home = collectionIn(which);
  if (home === undefined) throw resourceNotFound(which);
  const read = resourceReader(which.kind);
  for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
    const current = await fetchObject(api, which, signal);
    if (current === undefined) throw resourceNotFound(which);
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw resourceChanged(which);
    }
    const next = { ...resource, metadata: { ...current.metadata, labels, annotations } };
    const answer = await api.replace({ collection: home, object: next, mode }, signal);
    if (answer.outcome === 'ok') return insist(read(answer.value));
    if (answer.outcome === 'not-found') throw resourceNotFound(which);
    if (answer.outcome !== 'conflict') throw refusedError(which, answer.message);
    if (resourceVersion === undefined) continue;
    const now = answer.mayBeOurs ? await fetchObject(api, which, signal) : undefined;
    if (now === undefined || !isDeepStrictEqual(now['spec'], next.spec)) throw resourceChanged(which);
    return insist(read(now));
  }
  throw resourceContested(which);
}

export async function deleteResource(
  api: OrchApi,
  { resourceVersion, mode, ...which }: VersionedId & { readonly mode: Mode | undefined },
  signal: AbortSignal,
): Promise<void> {
  refuseBuiltIn(which);
  refuseNodeWrite(which);
  const collection = collectionIn(which);
  if (collection === undefined) throw resourceNotFound(which);
  const preconditions = resourceVersion === undefined ? {} : { resourceVersion };
  const answer = await api.delete({ collection, name: which.name, preconditions, mode }, signal);
  if (answer.outcome === 'ok') return;
  if (answer.outcome === 'not-found') {
    if (answer.mayBeOurs) return;
    throw resourceNotFound(which);
  }
  if (answer.outcome === 'conflict') throw resourceChanged(which);
  throw refusedError(which, answer.message);
}

export async function fetchObject(
  api: OrchApi,
  which: ResourceId,
  signal: AbortSignal,
): Promise<ApiObject | undefined> {
  const home = collectionIn(which);
  if (home === undefined) return undefined;
  const answer = await api.get(home, which.name, signal);
  if (answer.outcome === 'ok') return answer.value;
  if (answer.outcome === 'not-found') return undefined;
  throw refusedError(which, answer.message);
}

/** Returns the error for what the API itself finds wrong with a resource, or with its name. */
export function refusedError(which: ResourceId, message: string): NetplugError {
  return new NetplugError('resource/invalid', `Cannot write ${showResourceId(which)}: the API refuses it: ${message}`, {
    hint: 'Correct what the API names',
    facts: resourceFacts(which),
  });
}
