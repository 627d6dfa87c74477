import { isNetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import { type ResourceId, resourceIdOf } from '../../../model/resource-id.ts';
import { runBatch } from './batch.ts';
import { withStoreToChange } from '../connection.ts';
import { deletePool, dryRunPoolDeletion } from './delete-pool.ts';
import { readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { refuseReadOnly } from './refuse-read-only.ts';
import { readResources } from './resource-files.ts';
import { type Choice, chosenOf } from './choice.ts';
import type { Target } from './target.ts';
import type { Writing } from './write-resource.ts';

export interface DeleteOptions extends Choice {
  readonly target: Target;
  readonly ifMissing: 'ignore' | 'fail';
  readonly mode: Mode;
}

type Doomed = ResourceId & { readonly resourceVersion?: string };

/** `delete`, by name or by file. */
export async function deleteResources(context: Context, options: DeleteOptions): Promise<Status> {
  const { mode, ifMissing } = options;
  const named = options.target.by === 'name' ? options.target.wanted : undefined;
  const filed = options.target.by === 'file' ? await doomedInFiles(context, options.target, options.namespace) : [];
  return withStoreToChange(context, { mode }, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal, mode };
    const doomed = named === undefined ? filed : await chosenOf(context, store, { ...options, wanted: named });
    const items = doomed.map((which) => ({ which, run: async () => removeOne(writing, which, ifMissing) }));
    return runBatch(context, items, mode);
  });
}

async function doomedInFiles(
  context: Context,
  { files }: Extract<Target, { by: 'file' }>,
  namespace: string | undefined,
): Promise<readonly Doomed[]> {
  return readResources(await readInputs(context, files), namespace).map(({ resource }) => {
    const { resourceVersion } = resource.metadata;
    return { ...resourceIdOf(resource), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
  });
}

async function removeOne(writing: Writing, which: Doomed, ifMissing: 'ignore' | 'fail'): Promise<string> {
  refuseReadOnly(which);
  const isPool = which.kind === 'IPPool';
  try {
    if (!isPool) await writing.store.deleteResource(which, writing.signal, writing.mode);
    else if (writing.mode === 'dry-run') await dryRunPoolDeletion(writing, which);
    else await deletePool(writing, which);
    return 'deleted';
  } catch (cause) {
    if (ifMissing === 'ignore' && isNetplugError(cause, 'resource/not-found')) return 'not there';
    throw cause;
  }
}
