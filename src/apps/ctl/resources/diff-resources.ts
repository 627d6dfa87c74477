import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import { unversioned } from '../../../datastore/stored-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { resourceIdOf } from '../../../model/resource-id.ts';
import { withStore } from '../connection.ts';
import { type FileChoice, readInputs } from '../inputs.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { type Paint, painterFor } from '../screen.ts';
import { fieldsOf, type Owning, warnIfOwnerless } from './field-ownership.ts';
import { mergeResource, sameResource } from './merge-resource.ts';
import { renderYaml } from './output/render.ts';
import { readResources } from './resource-files.ts';

export interface DiffOptions extends Owning {
  readonly files: FileChoice;
  /** The namespace of resources that name none. */
  readonly namespace: string | undefined;
}

/** Shows what `apply` would change, as a unified diff. The status is 1 when there is something. */
export async function diff(context: Context, { files, namespace, ...owning }: DiffOptions): Promise<Status> {
  const { io, signal } = context;
  const paint = painterFor(io.screen);
  const written = readResources(await readInputs(context, files), namespace);
  return withStore(context, 'read', async (store) => {
    warnIfOwnerless(io, store, owning);
    const statuses: Status[] = [];
    for (const each of written) {
      try {
        const stored: AnyResource | undefined = await store.findResource(resourceIdOf(each.resource), signal);
        const applyFields = fieldsOf(store, each, owning);
        const merged = stored === undefined ? each.resource : mergeResource(stored, each.resource, 'keeps-labels');
        const next = applyFields === undefined ? merged : await applyFields('dry-run', signal);
        if (stored !== undefined && sameResource(unversioned(stored), unversioned(next))) continue;
        io.stdout(paintDiff(unifiedDiff(stored, next), paint));
        statuses.push(1);
      } catch (cause) {
        statuses.push(reportError(io, cause));
      }
    }
    // A failure counts more than a difference.
    return Math.max(0, ...statuses);
  });
}

function unifiedDiff(stored: AnyResource | undefined, next: AnyResource): string {
  const { namespace, name } = resourceIdOf(next);
  const path = [next.kind.toLowerCase(), namespace, name].filter((part) => part !== undefined).join('/');
  const [before, after] = [stored === undefined ? '' : comparable(stored), comparable(next)];
  const old = stored === undefined ? '/dev/null' : `stored/${path}`;
  return createTwoFilesPatch(old, `applied/${path}`, before, after, undefined, undefined, {
    headerOptions: FILE_HEADERS_ONLY,
  });
}

/** Renders a resource without what the datastore adds by itself. */
function comparable({ metadata, ...rest }: AnyResource): string {
  const { uid: _uid, creationTimestamp: _created, resourceVersion: _version, ...shown } = metadata;
  return renderYaml({ ...rest, metadata: shown }, 'sorted');
}

function paintDiff(text: string, paint: Paint): string {
  return text.replaceAll(/^.*$/gm, (line) => {
    if (/^(---|\+\+\+) /.test(line)) return paint('bold', line);
    if (line.startsWith('@@')) return paint('dim', line);
    return line.startsWith('-') ? paint('red', line) : line.startsWith('+') ? paint('cyan', line) : line;
  });
}
