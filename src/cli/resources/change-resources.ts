import { isNetplugError } from '../../base/errors.ts';
import { type ResourceId, resourceIdOf } from '../../model/resource-id.ts';
import { runBatch } from './batch.ts';
import { withStore } from '../connection.ts';
import { deletePool } from './delete-pool.ts';
import { readInputs } from '../inputs.ts';
import type { Job, Target } from '../job.ts';
import { writableKind } from './kind-names.ts';
import type { Context, Status } from '../ports.ts';
import { readResources } from './resource-files.ts';
import { writeResource, type Writing } from './write-resource.ts';

/** `apply`, `create` and `replace`: every document is read before the first is written. */
export async function write(
  context: Context,
  job: Extract<Job, { verb: 'apply' | 'create' | 'replace' }>,
): Promise<Status> {
  const resources = readResources(await readInputs(context, job.files));
  return withStore(context, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal };
    const items = resources.map((resource) => ({
      kind: resource.kind,
      name: resource.metadata.name,
      run: async () => writeResource(writing, job.verb, resource),
    }));
    return runBatch(context, items);
  });
}

/** `delete`, by name or by file. */
export async function remove(context: Context, job: Extract<Job, { verb: 'delete' }>): Promise<Status> {
  const doomed = await doomedOf(context, job.target);
  return withStore(context, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal };
    const items = doomed.map((which) => ({ ...which, run: async () => removeOne(writing, which, job.ifMissing) }));
    return runBatch(context, items);
  });
}

type Doomed = ResourceId & { readonly resourceVersion?: string };

async function doomedOf(context: Context, target: Target): Promise<readonly Doomed[]> {
  if (target.by === 'name') {
    const kind = writableKind(target.kind);
    return target.names.map((name) => ({ kind, name }));
  }
  return readResources(await readInputs(context, target.files)).map((resource) => {
    const { resourceVersion } = resource.metadata;
    return { ...resourceIdOf(resource), ...(resourceVersion === undefined ? {} : { resourceVersion }) };
  });
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
