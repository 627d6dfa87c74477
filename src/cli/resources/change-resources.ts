import { isNetplugError } from '../../base/errors.ts';
import type { Mode } from '../../base/mode.ts';
import type { WrittenResource } from '../../datastore/store.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { isRecord } from '../../model/read-schema.ts';
import { resourceIdOf } from '../../model/resource-id.ts';
import { accessIn } from '../admit.ts';
import { runBatch } from './batch.ts';
import { withStore } from '../connection.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { readResources } from './resource-files.ts';
import { applyOwned, writeResource, type WriteVerb } from './write-resource.ts';

export interface WriteOptions {
  readonly verb: WriteVerb;
  readonly files: FileChoice;
  /** Of resources that name none. */
  readonly namespace: string | undefined;
  /** What `create` does about resources that are there already. */
  readonly ifThere: 'skip' | 'fail';
  readonly mode: Mode;
  /** Who applies; the tool itself unless given. */
  readonly manager: string | undefined;
  /** Whether fields are taken from others. */
  readonly force: boolean;
}

const MANAGER = 'netplugctl';

/** `apply`, `create` and `replace`: every document is read before the first is written. */
export async function write(context: Context, options: WriteOptions): Promise<Status> {
  const { verb, mode } = options;
  const written = readResources(await readInputs(context, options.files), options.namespace);
  return withStore(context, accessIn(mode), async (store) => {
    const writing = { ...context.ports, store, signal: context.signal, mode };
    const { fieldOwnership } = store;
    if (fieldOwnership === undefined && (options.force || options.manager !== undefined)) {
      context.io.stderr('warning: this datastore keeps no owners of fields\n');
    }
    const items = written.map(({ resource, raw }) => ({
      which: resourceIdOf(resource),
      run: async () => {
        if (verb === 'apply' && fieldOwnership !== undefined && resource.kind !== 'Node') {
          const wish = {
            resource,
            raw: asWritten(resource, raw),
            manager: options.manager ?? MANAGER,
            force: options.force,
          };
          return applyOwned(writing, fieldOwnership, wish);
        }
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

/** The fields somebody wrote, and none that reading has filled in. */
function asWritten(resource: AnyResource, raw: unknown): WrittenResource {
  return { ...resource, spec: isRecord(raw) ? raw['spec'] : undefined };
}
