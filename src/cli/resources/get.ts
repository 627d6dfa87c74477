import { stringify } from 'yaml';
import { never } from '../../base/errors.ts';
import { withStore } from '../connection.ts';
import { readInputs } from '../inputs.ts';
import type { Target } from './target.ts';
import { visibleKind, type VisibleKind } from './kind-names.ts';
import { type Listing, listDocument, listKind } from './listing.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../report-error.ts';
import { readResources } from './resource-files.ts';

export const GET_OUTPUTS = ['table', 'wide', 'yaml', 'json', 'name'] as const;
export type GetOutput = (typeof GET_OUTPUTS)[number];

export interface GetOptions {
  readonly target: Target;
  readonly output: GetOutput;
  readonly namespace: string | undefined;
}

/** Shows resources; the yaml and json forms can be applied again. */
export async function get(context: Context, options: GetOptions): Promise<Status> {
  const wanted = await wantedOf(context, options.target);
  const { io, signal } = context;
  return withStore(context, async (store) => {
    let status: Status = 0;
    const listings: Listing[] = [];
    for (const { kind, names } of wanted) {
      const listing = await listKind(store, kind, { names, namespace: options.namespace, signal });
      listings.push(listing);
      for (const problem of listing.problems) io.stderr(`warning: ${problem}\n`);
    }
    const isSingle = wanted.length === 1 && wanted[0]?.names.length === 1;
    if (!isSingle || listings[0]?.items.length === 1)
      io.stdout(render(listings, options.output, isSingle ? 'object' : 'list'));
    for (const missing of listings.flatMap((listing) => listing.missing)) {
      const ofThis = reportError(io, missing);
      if (status === 0) status = ofThis;
    }
    return status;
  });
}

interface Wanted {
  readonly kind: VisibleKind;
  readonly names: readonly string[];
}

async function wantedOf(context: Context, target: Target): Promise<readonly Wanted[]> {
  if (target.by === 'name') return [{ kind: visibleKind(target.kind), names: target.names }];
  const byKind = new Map<VisibleKind, string[]>();
  for (const { kind, metadata } of readResources(await readInputs(context, target.files))) {
    byKind.set(kind, [...(byKind.get(kind) ?? []), metadata.name]);
  }
  return [...byKind].map(([kind, names]) => ({ kind, names }));
}

function render(listings: readonly Listing[], output: GetOutput, form: 'object' | 'list'): string {
  switch (output) {
    case 'table':
    case 'wide':
      return listings.map(({ table }) => table(output === 'wide' ? 'wide' : 'narrow')).join('\n');
    case 'name':
      return listings
        .flatMap(({ kind, items }) => items.map(({ metadata }) => `${kind.toLowerCase()}/${metadata.name}\n`))
        .join('');
    case 'yaml':
      return (
        documentsOf(listings, form)
          // Readers of the older YAML would take a bare time or "on" for something else than a string.
          .map((document) => stringify(document, { lineWidth: 0, compat: 'yaml-1.1' }))
          .join('---\n')
      );
    case 'json':
      return documentsOf(listings, form)
        .map((document) => `${JSON.stringify(document, undefined, 2)}\n`)
        .join('');
    default:
      return never(output);
  }
}

function documentsOf(listings: readonly Listing[], form: 'object' | 'list'): object[] {
  return listings.flatMap(({ kind, items }) => (form === 'object' ? [...items] : [listDocument(kind, items)]));
}
