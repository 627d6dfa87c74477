import { isNetplugError } from '../../base/errors.ts';
import type { ResourceKind } from '../../model/kinds.ts';
import { runBatch } from './batch.ts';
import { withStore } from '../connection.ts';
import { deletePool } from './delete-pool.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Target } from './target.ts';
import { writableKind } from './kind-names.ts';
import type { Context, Status } from '../ports.ts';
import { readResources } from './resource-files.ts';
import { writeResource, type WriteVerb, type Writing } from './write-resource.ts';

/** `apply`, `create` and `replace`: every document is read before the first is written. */
export async function write(context: Context, verb: WriteVerb, files: FileChoice): Promise<Status> {
  const resources = readResources(await readInputs(context, files));
  return withStore(context, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal };
    const items = resources.map((resource) => ({
      kind: resource.kind,
      name: resource.metadata.name,
      run: async () => writeResource(writing, verb, resource),
    }));
    return runBatch(context, items);
  });
}

export interface DeleteOptions {
  readonly target: Target;
  readonly ifMissing: 'ignore' | 'fail';
}

/** `delete`, by name or by file. */
export async function remove(context: Context, { target, ifMissing }: DeleteOptions): Promise<Status> {
  const doomed = await doomedOf(context, target);
  return withStore(context, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal };
    const items = doomed.map((which) => ({ ...which, run: async () => removeOne(writing, which, ifMissing) }));
    return runBatch(context, items);
  });
}

interface Doomed {
  readonly kind: ResourceKind;
  readonly name: string;
  readonly resourceVersion?: string;
}

async function doomedOf(context: Context, target: Target): Promise<readonly Doomed[]> {
  if (target.by === 'name') {
    const kind = writableKind(target.kind);
    return target.names.map((name) => ({ kind, name }));
  }
  return readResources(await readInputs(context, target.files)).map(
    ({ kind, metadata: { name, resourceVersion } }) => ({
      kind,
      name,
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    }),
  );
}

async function removeOne(writing: Writing, which: Doomed, ifMissing: 'ignore' | 'fail'): Promise<string> {
  try {
    if (which.kind === 'IPPool') await deletePool(writing, which);
    else await writing.store.deleteResource(which, writing.signal);
    return 'deleted';
  } catch (cause) {
    if (ifMissing === 'ignore' && isNetplugError(cause, 'resource/not-found')) return 'not there';
    throw cause;
  }
}
