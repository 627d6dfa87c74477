import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { isNetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import { backOffConflict, type RetryPorts } from '../../../base/back-off.ts';
import { resourceChanged, resourceNotFound } from '../../../datastore/resource-errors.ts';
import { unversioned } from '../../../datastore/stored-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { type ResourceId, resourceIdOf } from '../../../model/resource-id.ts';
import type { ApplyFields } from './field-ownership.ts';
import { mergeResource, sameResource } from './merge-resource.ts';
import { assertPoolFits, withdrawOverlapping } from './pool-checks.ts';
import { refuseWrittenBack } from './refuse-owned-pool.ts';
import { refuseReadOnly } from './refuse-read-only.ts';

export type WriteOutcome = 'created' | 'configured' | 'replaced' | 'unchanged';
export type WriteVerb = 'apply' | 'create' | 'replace';

export interface Writing extends RetryPorts {
  readonly store: AllocationStore & ResourceStore;
  readonly signal: AbortSignal;
  readonly mode: Mode;
}

/** Number of times that a write is tried again after a conflict with another writer. */
const TRIES = 32;

/**
 * Writes one resource and says what that changed. A resourceVersion in the file is insisted on; without one the write is
 * tried again on top of what others wrote meanwhile.
 * @throws resource/exists, resource/not-found, resource/changed, resource/invalid, resource/in-use, resource/owned
 */
export async function writeResource(writing: Writing, verb: WriteVerb, wanted: AnyResource): Promise<WriteOutcome> {
  if (verb === 'create') return createResource(writing, wanted);
  const { resourceVersion } = wanted.metadata;
  return insist(writing, resourceVersion, async () => writeOnce(writing, verb, wanted));
}

/**
 * Applies the fields of a file, where the datastore knows who wrote which field.
 * @throws resource/field-conflict, resource/changed, resource/invalid, resource/in-use, resource/owned
 */
export async function applyOwned(
  writing: Writing,
  wanted: AnyResource,
  applyFields: ApplyFields,
): Promise<WriteOutcome> {
  const { store, signal, mode } = writing;
  const before = await store.findResource(resourceIdOf(wanted), signal);
  if (wanted.kind === 'IPPool') {
    const pool = await applyFields('dry-run', signal);
    const previous = before?.kind === 'IPPool' ? before : undefined;
    if (pool.kind === 'IPPool') {
      await assertPoolFits(store, { pool, previous }, signal);
      if (previous !== undefined) await refuseWrittenBack(store, { before: previous, after: pool }, signal);
    }
  }
  const after = await applyFields(mode, signal);
  if (before === undefined) {
    await lookAgain(store, after, { signal, mode });
    return 'created';
  }
  return sameResource(unversioned(before), unversioned(after)) ? 'unchanged' : 'configured';
}

/**
 * Stores the result of `change`; retries after a conflict, unless the result names the version it was made from.
 * @throws resource/not-found, resource/changed, resource/invalid, resource/owned
 */
export async function changeStored(
  writing: Writing,
  which: ResourceId,
  { change, resourceVersion }: { change: (stored: AnyResource) => AnyResource; resourceVersion?: string | undefined },
): Promise<'changed' | 'unchanged'> {
  return insist(writing, resourceVersion, async () => {
    const stored: AnyResource | undefined = await writing.store.findResource(which, writing.signal);
    if (stored === undefined) throw resourceNotFound(which);
    return updateResource(writing, { stored, next: change(stored), resourceVersion });
  });
}

async function insist<T>(writing: Writing, resourceVersion: string | undefined, writeIt: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    await backOffConflict(writing, attempt, writing.signal);
    try {
      return await writeIt();
    } catch (cause) {
      const isRace = isNetplugError(cause, 'resource/changed', 'resource/exists');
      if (!isRace || resourceVersion !== undefined || attempt === TRIES) throw cause;
    }
  }
}

async function writeOnce(writing: Writing, verb: 'apply' | 'replace', wanted: AnyResource): Promise<WriteOutcome> {
  const which = resourceIdOf(wanted);
  const stored: AnyResource | undefined = await writing.store.findResource(which, writing.signal);
  if (stored === undefined) {
    if (verb === 'replace') throw resourceNotFound(which);
    return createResource(writing, wanted);
  }
  const next = mergeResource(stored, wanted, verb === 'apply' ? 'keeps-labels' : 'drops-labels');
  const { resourceVersion } = wanted.metadata;
  const outcome = await updateResource(writing, { stored, next, resourceVersion });
  if (outcome === 'unchanged') return outcome;
  return verb === 'apply' ? 'configured' : 'replaced';
}

async function updateResource(
  { store, signal, mode }: Writing,
  { stored, next, resourceVersion }: { stored: AnyResource; next: AnyResource; resourceVersion: string | undefined },
): Promise<'changed' | 'unchanged'> {
  if (resourceVersion !== undefined && resourceVersion !== stored.metadata.resourceVersion) {
    throw resourceChanged(resourceIdOf(stored));
  }
  if (sameResource(stored, next)) return 'unchanged';
  refuseReadOnly(resourceIdOf(stored));
  if (next.kind === 'IPPool' && stored.kind === 'IPPool') {
    await assertPoolFits(store, { pool: next, previous: stored }, signal);
    await refuseWrittenBack(store, { before: stored, after: next }, signal);
  }
  await store.updateResource(next, signal, mode);
  return 'changed';
}

async function createResource({ store, signal, mode }: Writing, wanted: AnyResource): Promise<'created'> {
  refuseReadOnly(resourceIdOf(wanted));
  if (wanted.kind === 'IPPool') await assertPoolFits(store, { pool: wanted, previous: undefined }, signal);
  const created = await store.createResource(wanted, signal, mode);
  await lookAgain(store, created, { signal, mode });
  return 'created';
}

async function lookAgain(
  store: AllocationStore & ResourceStore,
  created: AnyResource,
  { signal, mode }: Pick<Writing, 'signal' | 'mode'>,
): Promise<void> {
  if (created.kind === 'IPPool' && mode !== 'dry-run') await withdrawOverlapping(store, created, signal);
}
