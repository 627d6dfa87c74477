import { withStore } from '../connection.ts';
import { enforcementNote } from './kind-names.ts';
import { type Listing, listKind } from './listing.ts';
import { isTable } from './output/get-output.ts';
import { type Look, renderGroups } from './output/render.ts';
import type { VisibleResource } from './kind-names.ts';
import { type Path, showValue, valuesAt } from './output/json-path.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { type Target, wantedOf } from './target.ts';

export interface GetOptions extends Omit<Look, 'form'> {
  readonly target: Target;
  /** None means all. */
  readonly namespace: string | undefined;
  /** Over labels. */
  readonly selector: string;
  readonly sortBy: Path | undefined;
}

/** Shows resources; the yaml and json forms can be applied again. */
export async function getResources(context: Context, options: GetOptions): Promise<Status> {
  const { output, namespace, selector, sortBy } = options;
  const wanted = await wantedOf(context, options.target, namespace);
  const { io, signal } = context;
  return withStore(context, 'read', async (store) => {
    const listings: Listing[] = [];
    for (const each of wanted) {
      const listing = await listKind(store, each.kind, { namespace, ...each, selector, signal });
      listings.push(sortBy === undefined ? listing : { ...listing, items: sortResources(listing.items, sortBy) });
      for (const problem of listing.problems) io.stderr(`warning: ${problem}\n`);
    }
    const isSingle = wanted.length === 1 && wanted[0]?.names.length === 1;
    const isMissing =
      (isSingle || isTable(output)) &&
      wanted.every(({ names }) => names.length > 0) &&
      listings.every(({ items }) => items.length === 0);
    // Of several kinds, those there is nothing of need no table.
    const shown = isTable(output) && listings.length > 1 ? listings.filter(({ items }) => items.length > 0) : listings;
    if (!isMissing) io.stdout(renderGroups(shown, { ...options, form: isSingle ? 'object' : 'list' }));
    if (isTable(output)) for (const { kind } of shown) io.stderr(enforcementNote(kind));
    const [status = 0] = listings.flatMap(({ missing }) => missing).map((missing) => reportError(io, missing));
    return status;
  });
}

/** Sorts by the value at the path: numbers by size, everything else as text, resources without a value first. */
function sortResources<R extends VisibleResource>(resources: readonly R[], path: Path): readonly R[] {
  const keyed = resources.map((resource) => ({ resource, key: valuesAt(path, resource)[0] }));
  return keyed.sort((a, b) => compareKeys(a.key, b.key)).map(({ resource }) => resource);
}

function compareKeys(a: unknown, b: unknown): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return showValue(a).localeCompare(showValue(b), 'en', { numeric: true });
}
