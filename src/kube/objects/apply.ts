import type { Manifest } from '../../model/manifest.ts';
import { NetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import type { ApiAnswer } from '../answers.ts';
import type { ApiObject } from '../objects.ts';
import type { OrchApi } from '../orch-api.ts';
import { diffObjects, type Difference } from './diff.ts';
import { managerFor, MANAGER } from './managers.ts';
import { collectionHolding, objectName, type ObjectReference, referenceKey, referenceOf } from './reference.ts';

/** An object that is applied on the server, in place of what other managers have written. */
export interface Application {
  readonly object: Manifest;
  /** `MANAGER` unless given. */
  readonly manager?: string;
  readonly mode?: Mode | undefined;
  /** Whether fields of other managers are taken over; true unless given. */
  readonly force?: boolean;
}

/** Returns the object; undefined when it does not exist. @throws store/* */
export async function findObject(
  api: OrchApi,
  which: ObjectReference,
  signal: AbortSignal,
): Promise<ApiObject | undefined> {
  const answer = await api.get(collectionHolding(which), which.name, signal);
  return answer.outcome === 'ok' ? answer.value : undefined;
}

/** Applies the object, and returns the API server's answer. @throws store/* */
export async function tryApply(
  api: OrchApi,
  { object, manager = MANAGER, mode, force = true }: Application,
  signal: AbortSignal,
): Promise<ApiAnswer<ApiObject>> {
  const which = referenceOf(object);
  const at = { collection: collectionHolding(which), name: which.name, ...(mode === undefined ? {} : { mode }) };
  return api.patch(at, { kind: 'apply', body: object, manager, force }, signal);
}

/** Applies the object, and returns it as it is then. @throws install/refused, store/* */
export async function applyObject(api: OrchApi, application: Application, signal: AbortSignal): Promise<ApiObject> {
  const answer = await tryApply(api, application, signal);
  if (answer.outcome === 'ok') return answer.value;
  throw refused('apply', objectName(application.object), answer.message);
}

/** Applies the object as its installer does. @throws install/refused, store/* */
export async function applyRelease(api: OrchApi, object: Manifest, signal: AbortSignal): Promise<void> {
  const live = await findObject(api, referenceOf(object), signal);
  await applyObject(api, { object, manager: managerFor(live) }, signal);
}

/** Returns what applying the object would change in the one that exists, by a dry run. @throws install/refused, store/* */
export async function changesOfApply(
  api: OrchApi,
  { live, ...application }: Application & { readonly live: ApiObject },
  signal: AbortSignal,
): Promise<readonly Difference[]> {
  return diffObjects(live, await applyObject(api, { ...application, mode: 'dry-run' }, signal));
}

/** Reports whether applying the objects as their installers do would change nothing. @throws install/refused, store/* */
export async function areApplied(api: OrchApi, objects: readonly Manifest[], signal: AbortSignal): Promise<boolean> {
  for (const object of objects) {
    const live = await findObject(api, referenceOf(object), signal);
    if (live === undefined) return false;
    if ((await changesOfApply(api, { object, live, manager: managerFor(live) }, signal)).length > 0) return false;
  }
  return true;
}

/** Merges the body into the object by RFC 7396, and returns the API server's answer. @throws store/* */
export async function tryMerge(
  api: OrchApi,
  { which, body }: { readonly which: ObjectReference; readonly body: Readonly<Record<string, unknown>> },
  signal: AbortSignal,
): Promise<ApiAnswer<ApiObject>> {
  return api.patch({ collection: collectionHolding(which), name: which.name }, { kind: 'merge', body }, signal);
}

/** Merges the body into the object. @throws install/refused, store/* */
export async function mergeInto(
  api: OrchApi,
  merged: { readonly which: ObjectReference; readonly body: Readonly<Record<string, unknown>> },
  signal: AbortSignal,
): Promise<void> {
  const answer = await tryMerge(api, merged, signal);
  if (answer.outcome !== 'ok') throw refused('change', referenceKey(merged.which), answer.message);
}

/** Writes annotations of the object; null removes one. @throws install/refused, store/* */
export async function annotate(
  api: OrchApi,
  {
    which,
    annotations,
  }: { readonly which: ObjectReference; readonly annotations: Readonly<Record<string, string | null>> },
  signal: AbortSignal,
): Promise<void> {
  const answer = await tryMerge(api, { which, body: { metadata: { annotations } } }, signal);
  if (answer.outcome !== 'ok') throw refused('annotate', referenceKey(which), answer.message);
}

/** Deletes the object and reports whether it existed. @throws install/refused, store/* */
export async function deleteObject(api: OrchApi, which: ObjectReference, signal: AbortSignal): Promise<boolean> {
  const answer = await api.delete(
    { collection: collectionHolding(which), name: which.name, preconditions: {} },
    signal,
  );
  if (answer.outcome === 'ok') return true;
  if (answer.outcome === 'not-found') return false;
  throw refused('delete', referenceKey(which), answer.message);
}

function refused(verb: string, object: string, message: string): NetplugError {
  return new NetplugError('install/refused', `Cannot ${verb} ${object}: ${message}`, {
    hint: 'Correct what the API server names, and run the command again: it goes on from here',
    facts: { object },
  });
}
