import { isNetplugError } from '../../../base/errors.ts';
import type { Mode } from '../../../base/mode.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import { runBatch } from './batch.ts';
import { withStoreToChange } from '../connection.ts';
import { fieldsOf, type Owning, warnIfOwnerless } from './field-ownership.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { readResources } from './resource-files.ts';
import { applyOwned, writeResource, type WriteVerb } from './write-resource.ts';

export interface WriteOptions extends Owning {
  readonly verb: WriteVerb;
  readonly files: FileChoice;
  /** The namespace of resources that name none. */
  readonly namespace: string | undefined;
  /** Action of `create` for resources that are there already. */
  readonly ifThere: 'skip' | 'fail';
  readonly mode: Mode;
}

/** `apply`, `create` and `replace`: every document is read before the first is written. */
export async function write(context: Context, options: WriteOptions): Promise<Status> {
  const { verb, mode } = options;
  const written = readResources(await readInputs(context, options.files), options.namespace);
  return withStoreToChange(context, { mode }, async (store) => {
    const writing = { ...context.ports, store, signal: context.signal, mode };
    warnIfOwnerless(context.io, store, options);
    const items = written.map(({ resource, raw }) => ({
      which: resourceIdOf(resource),
      run: async () => {
        const applyFields = verb === 'apply' ? fieldsOf(store, { resource, raw }, options) : undefined;
        if (applyFields !== undefined) return applyOwned(writing, resource, applyFields);
        try {
          return await writeResource(writing, verb, resource);
        } catch (cause) {
          const isThere = verb === 'create' && isNetplugError(cause, 'resource/exists');
          if (isThere && options.ifThere === 'skip') return 'exists already, left as it is';
          throw cause;
        }
      },
    }));
    return runBatch(context, items, mode);
  });
}
