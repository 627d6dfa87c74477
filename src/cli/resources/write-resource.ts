import { isNetplugError } from '../../base/errors.ts';
import { backOff, type Patience } from '../../base/retry.ts';
import { resourceChanged, resourceNotFound } from '../../datastore/resource-errors.ts';
import type { Store } from '../../datastore/store.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { resourceIdOf } from '../../model/resource-id.ts';
import { mergeResource, sameResource } from './merge-resource.ts';
import { assertPoolFits } from './pool-checks.ts';

export type Verdict = 'created' | 'configured' | 'replaced' | 'unchanged';
export type WriteVerb = 'apply' | 'create' | 'replace';

export interface Writing extends Patience {
  readonly store: Store;
  readonly signal: AbortSignal;
}

/** How often a write is tried again when somebody else was quicker. */
const TRIES = 5;

/**
 * Writes one resource and says what that changed. A resourceVersion in the file is insisted on; without one the write is
 * tried again on top of what others wrote meanwhile.
 * @throws resource/exists, resource/not-found, resource/changed, resource/invalid, resource/in-use
 */
export async function writeResource(writing: Writing, verb: WriteVerb, wanted: AnyResource): Promise<Verdict> {
  if (verb === 'create') return createResource(writing, wanted);
  for (let attempt = 0; ; attempt += 1) {
    await backOff(writing, attempt, writing.signal);
    try {
      return await writeOnce(writing, verb, wanted);
    } catch (cause) {
      const isRace = isNetplugError(cause, 'resource/changed', 'resource/exists');
      if (!isRace || wanted.metadata.resourceVersion !== undefined || attempt === TRIES) throw cause;
    }
  }
}

async function writeOnce(writing: Writing, verb: 'apply' | 'replace', wanted: AnyResource): Promise<Verdict> {
  const { store, signal } = writing;
  const which = resourceIdOf(wanted);
  const { resourceVersion } = wanted.metadata;
  const stored: AnyResource | undefined = await store.findResource(which, signal);
  if (stored === undefined) {
    if (verb === 'replace') throw resourceNotFound(which);
    return createResource(writing, wanted);
  }
  if (resourceVersion !== undefined && resourceVersion !== stored.metadata.resourceVersion) {
    throw resourceChanged(which);
  }
  const next = mergeResource(stored, wanted, verb === 'apply' ? 'keeps-labels' : 'drops-labels');
  if (sameResource(stored, next)) return 'unchanged';
  if (next.kind === 'IPPool' && stored.kind === 'IPPool') {
    await assertPoolFits(store, { pool: next, previous: stored }, signal);
  }
  await store.updateResource(next, signal);
  return verb === 'apply' ? 'configured' : 'replaced';
}

async function createResource({ store, signal }: Writing, wanted: AnyResource): Promise<'created'> {
  if (wanted.kind === 'IPPool') await assertPoolFits(store, { pool: wanted, previous: undefined }, signal);
  await store.createResource(wanted, signal);
  return 'created';
}
