import { isNetplugError, NetplugError } from '../../base/errors.ts';
import { resourceNotFound } from '../../datastore/resource-errors.ts';
import type { Store } from '../../datastore/store.ts';
import type { Column } from '../../model/kind-info.ts';
import { KINDS, type ResourceKind } from '../../model/kinds.ts';
import type { Metadata } from '../../model/resource.ts';
import { API_VERSION } from '../../model/resource.ts';
import { ENDPOINT_INFO, type VisibleKind } from './kind-names.ts';
import { renderTable } from '../table.ts';

/** Resources of one kind, ready to be shown in every form. */
export interface Listing {
  readonly kind: VisibleKind;
  readonly items: readonly { readonly metadata: Metadata }[];
  readonly table: (width: 'narrow' | 'wide') => string;
  /** Records that could not be read. */
  readonly problems: readonly string[];
  /** One per name there is nothing of. */
  readonly missing: readonly Error[];
}

export interface Question {
  /** None asks for all. */
  readonly names: readonly string[];
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
}

export async function listKind(store: Store, kind: VisibleKind, question: Question): Promise<Listing> {
  return kind === 'WorkloadEndpoint' ? listEndpoints(store, question) : listResources(store, kind, question);
}

/** The `kind: List` document of the yaml and json forms. */
export function listDocument(kind: VisibleKind, items: readonly unknown[]): object {
  return { apiVersion: API_VERSION, kind: `${kind}List`, items };
}

/** The type parameter ties the columns to the resources. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- used by what the body calls
async function listResources<K extends ResourceKind>(
  store: Store,
  kind: K,
  { names, signal }: Question,
): Promise<Listing> {
  const { columns } = KINDS[kind];
  if (names.length === 0) {
    const { resources, problems } = await store.listResources(kind, signal);
    return { kind, items: resources, table: tableOf(columns, resources), problems, missing: [] };
  }
  const found = [];
  const missing: Error[] = [];
  for (const name of names) {
    try {
      const resource = await store.findResource(kind, name, signal);
      if (resource === undefined) missing.push(resourceNotFound({ kind, name }));
      else found.push(resource);
    } catch (cause) {
      // One unreadable record must not hide the others; a datastore that does not answer hides all.
      if (!isNetplugError(cause, 'store/corrupt')) throw cause;
      missing.push(cause);
    }
  }
  return { kind, items: found, table: tableOf(columns, found), problems: [], missing };
}

async function listEndpoints(store: Store, { names, namespace, signal }: Question): Promise<Listing> {
  const kind = 'WorkloadEndpoint';
  const { endpoints, problems } = await store.listEndpoints(undefined, signal);
  const items = endpoints
    .map(({ value, version }) => ({ ...value, metadata: { ...value.metadata, resourceVersion: version } }))
    .filter(({ metadata }) => namespace === undefined || (metadata.namespace ?? 'default') === namespace)
    .filter(
      ({ metadata, spec }) => names.length === 0 || names.includes(metadata.name) || names.includes(spec.pod ?? ''),
    );
  const isFound = (name: string): boolean =>
    items.some(({ metadata, spec }) => metadata.name === name || spec.pod === name);
  const missing = names.filter((name) => !isFound(name)).map(endpointNotFound);
  return { kind, items, table: tableOf(ENDPOINT_INFO.columns, items), problems, missing };
}

function endpointNotFound(name: string): NetplugError {
  return new NetplugError(
    'resource/not-found',
    `Cannot find WorkloadEndpoint "${name}": no endpoint or pod has that name`,
    {
      hint: 'See "netplugctl get workloadendpoints -o wide" for the names',
      facts: { name },
    },
  );
}

function tableOf<R>(columns: readonly Column<R>[], resources: readonly R[]): Listing['table'] {
  return (width) => {
    const shown = columns.filter(({ isWide }) => width === 'wide' || !isWide);
    return renderTable(
      shown.map(({ title }) => title),
      resources.map((resource) => shown.map(({ show }) => show(resource))),
    );
  };
}
