import { isDeepStrictEqual } from 'node:util';
import { NetplugError } from '../../base/errors.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../../model/kinds.ts';
import type { Answer } from '../../orch-api/answers.ts';
import type { ApiObject } from '../../orch-api/objects.ts';
import type { OrchApi } from '../../orch-api/orch-api.ts';
import { isObjectName } from '../../orch-api/paths.ts';
import { compareText } from '../order.ts';
import { resourceChanged, resourceExists, resourceNotFound } from '../resource-errors.ts';
import { nodeProblems } from './node-objects.ts';
import { collectionOf, refuseNodeWrite, resourceReader } from './resource-objects.ts';
import { insist, sortOut } from './unreadable.ts';

/** How often an update without a version is tried while others change the same resource. */
const UPDATE_TRIES = 8;

interface Which {
  readonly kind: ResourceKind;
  readonly name: string;
}

export async function listResources<K extends ResourceKind>(
  api: OrchApi,
  kind: K,
  signal: AbortSignal,
): Promise<{ resources: readonly ResourceOf<K>[]; problems: readonly string[] }> {
  const objects = await api.list(collectionOf(kind), {}, signal);
  const { good, problems } = sortOut(objects, resourceReader(kind));
  const resources = good.sort((a, b) => compareText(a.metadata.name, b.metadata.name));
  return { resources, problems: [...problems, ...(kind === 'Node' ? objects.flatMap(nodeProblems) : [])] };
}

export async function findResource<K extends ResourceKind>(
  api: OrchApi,
  { kind, name }: { readonly kind: K; readonly name: string },
  signal: AbortSignal,
): Promise<ResourceOf<K> | undefined> {
  const object = await fetchObject(api, { kind, name }, signal);
  return object === undefined ? undefined : insist(resourceReader(kind)(object));
}

export async function createResource(api: OrchApi, resource: AnyResource, signal: AbortSignal): Promise<AnyResource> {
  const { kind } = resource;
  const { name, labels, annotations } = resource.metadata;
  refuseNodeWrite(kind, name);
  const object = { ...resource, metadata: { name, labels, annotations } };
  const answer = await api.create(collectionOf(kind), object, signal);
  if (answer.outcome === 'ok') return insist(resourceReader(kind)(answer.value));
  if (answer.outcome !== 'exists') throw refusedError({ kind, name }, answer);
  const there = answer.mayBeOurs ? await fetchObject(api, { kind, name }, signal) : undefined;
  if (there === undefined || !isDeepStrictEqual(there['spec'], object.spec)) throw resourceExists({ kind, name });
  return insist(resourceReader(kind)(there));
}

/** Reads first, so that what others keep in the metadata (finalizers, owners) survives, and identity with it. */
export async function updateResource(api: OrchApi, resource: AnyResource, signal: AbortSignal): Promise<AnyResource> {
  const { kind } = resource;
  const { name, labels, annotations, resourceVersion } = resource.metadata;
  const which = { kind, name };
  refuseNodeWrite(kind, name);
  for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
    const current = await fetchObject(api, which, signal);
    if (current === undefined) throw resourceNotFound(which);
    if (resourceVersion !== undefined && resourceVersion !== current.metadata.resourceVersion) {
      throw resourceChanged(which);
    }
    const next = { ...resource, metadata: { ...current.metadata, labels, annotations } };
    const answer = await api.replace(collectionOf(kind), next, signal);
    if (answer.outcome === 'ok') return insist(resourceReader(kind)(answer.value));
    if (answer.outcome === 'not-found') throw resourceNotFound(which);
    if (answer.outcome !== 'conflict') throw refusedError(which, answer);
    if (resourceVersion === undefined) continue;
    const now = answer.mayBeOurs ? await fetchObject(api, which, signal) : undefined;
    if (now === undefined || !isDeepStrictEqual(now['spec'], next.spec)) throw resourceChanged(which);
    return insist(resourceReader(kind)(now));
  }
  throw new NetplugError('store/conflict', `Cannot change ${kind} "${name}": others keep changing it`, {
    hint: 'Find out who else writes it',
    facts: which,
  });
}

export async function deleteResource(
  api: OrchApi,
  { kind, name, resourceVersion }: Which & { readonly resourceVersion?: string },
  signal: AbortSignal,
): Promise<void> {
  const which = { kind, name };
  refuseNodeWrite(kind, name);
  if (!isObjectName(name)) throw resourceNotFound(which);
  const preconditions = resourceVersion === undefined ? {} : { resourceVersion };
  const answer = await api.delete({ collection: collectionOf(kind), name, preconditions }, signal);
  if (answer.outcome === 'ok') return;
  if (answer.outcome === 'not-found') {
    if (answer.mayBeOurs) return;
    throw resourceNotFound(which);
  }
  if (answer.outcome === 'conflict') throw resourceChanged(which);
  throw refusedError(which, answer);
}

async function fetchObject(api: OrchApi, { kind, name }: Which, signal: AbortSignal): Promise<ApiObject | undefined> {
  if (!isObjectName(name)) return undefined;
  const answer = await api.get(collectionOf(kind), name, signal);
  if (answer.outcome === 'ok') return answer.value;
  if (answer.outcome === 'not-found') return undefined;
  throw refusedError({ kind, name }, answer);
}

/** What the API itself finds wrong with a resource, or with its name. */
function refusedError({ kind, name }: Which, answer: Exclude<Answer<unknown>, { outcome: 'ok' }>): NetplugError {
  return new NetplugError('resource/invalid', `Cannot write ${kind} "${name}": the API refuses it: ${answer.message}`, {
    hint: 'Correct what the API names',
    facts: { kind, name },
  });
}
