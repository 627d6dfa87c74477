import type { Mode } from '../../base/mode.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { fullId, type ResourceId } from '../../model/resource-id.ts';
import type { ApiAnswer } from '../../kube/answers.ts';
import type { ApiObject } from '../../kube/objects.ts';
import type { OrchApi } from '../../kube/orch-api.ts';
import type { Collection } from '../../kube/paths.ts';
import { refuseBuiltIn } from '../built-in.ts';
import { fieldConflict, resourceChanged, resourceContested } from '../resource-errors.ts';
import type { WrittenResource } from '../resource-store.ts';
import { fetchObject, refusedError, UPDATE_TRIES } from './orch-resources.ts';
import { collectionIn, refuseNodeWrite, resourceReader } from './resource-objects.ts';
import { insist } from '../unreadable.ts';

interface Wish {
  readonly resource: WrittenResource;
  readonly manager: string;
  readonly force: boolean;
  readonly mode?: Mode | undefined;
}

/**
 * Applies a resource. What the manager itself wrote by other means than applying is a conflict to the API, and is taken
 * over: by force, on the very version of the object at which nothing else was in the way.
 */
export async function applyResource(api: OrchApi, wish: Wish, signal: AbortSignal): Promise<AnyResource> {
  const { kind, metadata } = wish.resource;
  const { namespace, name, resourceVersion } = metadata;
  const which = fullId({ kind, name, ...(namespace === undefined ? {} : { namespace }) });
  refuseNodeWrite(which);
  refuseBuiltIn(which);
  const home = collectionIn(which);
  if (home === undefined) throw refusedError(which, 'no object can have that name');
  for (let attempt = 0; attempt < UPDATE_TRIES; attempt += 1) {
    const current = attempt === 0 ? undefined : await fetchObject(api, which, signal);
    const version = resourceVersion ?? current?.metadata.resourceVersion;
    let answer = await applyAt(api, { ...wish, home, version }, signal);
    if (version !== undefined && isOnlyOurs(answer, wish)) {
      answer = await applyAt(api, { ...wish, home, version, force: true }, signal);
    }
    if (answer.outcome === 'ok') return insist(resourceReader(kind)(answer.value));
    if (!isOnlyOurs(answer, wish)) refuse(which, answer);
    if (resourceVersion !== undefined) throw resourceChanged(which);
  }
  throw resourceContested(which);
}

/** Returns only the fields that users write; the API sets the other fields of a file. */
async function applyAt(
  api: OrchApi,
  {
    resource,
    manager,
    force,
    mode,
    home,
    version,
  }: Wish & { readonly home: Collection; readonly version: string | undefined },
  signal: AbortSignal,
): Promise<ApiAnswer<ApiObject>> {
  const { apiVersion, kind, spec } = resource;
  const { name, labels, annotations } = resource.metadata;
  const metadata = { name, labels, annotations, resourceVersion: version };
  const body = { apiVersion, kind, metadata, spec };
  return api.patch({ collection: home, name, mode }, { kind: 'apply', body, manager, force }, signal);
}

function isOnlyOurs(answer: ApiAnswer<ApiObject>, { manager }: Wish): boolean {
  if (answer.outcome === 'ok' || answer.heldFields.length === 0) return false;
  return answer.heldFields.every(({ owner }) => owner === manager);
}

/** @throws resource/field-conflict, resource/invalid; not for an object that has another version by now */
function refuse(which: ResourceId, answer: Exclude<ApiAnswer<ApiObject>, { outcome: 'ok' }>): void {
  if (answer.heldFields.length > 0) throw fieldConflict(which, answer.heldFields);
  if (answer.outcome !== 'conflict') throw refusedError(which, answer.message);
}
