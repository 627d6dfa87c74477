import type { ResourceStore } from '../../../datastore/resource-store.ts';
import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { resourceNotFound } from '../../../datastore/resource-errors.ts';
import type { ResourceKind } from '../../../model/kinds.ts';
import { DEFAULT_NAMESPACE } from '../../../model/resource-id.ts';
import { matchesSelector } from '../../../model/selector.ts';
import type { WorkloadEndpoint } from '../../../model/workload-endpoint.ts';
import type { VisibleKind, VisibleResource } from './kind-names.ts';

/** Resources of one kind. */
export interface Listing {
  readonly kind: VisibleKind;
  readonly items: readonly VisibleResource[];
  /** Records that could not be read. */
  readonly problems: readonly string[];
  /** One per name there is nothing of. */
  readonly missing: readonly Error[];
}

export interface Question {
  /** None asks for all. */
  readonly names: readonly string[];
  /** None asks for all. */
  readonly namespace: string | undefined;
  /** Over labels. */
  readonly selector: string;
  readonly signal: AbortSignal;
}

export async function listKind(
  store: AllocationStore & ResourceStore,
  kind: VisibleKind,
  question: Question,
): Promise<Listing> {
  if (kind === 'WorkloadEndpoint') return listEndpoints(store, question);
  if (question.names.length > 0) return findNamed(store, kind, question);
  const { resources, problems } = await store.listResources(kind, question.signal);
  return { kind, items: resources.filter((each) => isWanted(each, question)), problems, missing: [] };
}

/** Whether a resource is among those that are asked for, its name apart. */
export function isWanted(
  { metadata }: VisibleResource,
  { namespace, selector }: Pick<Question, 'namespace' | 'selector'>,
): boolean {
  const isThere = namespace === undefined || (metadata.namespace ?? namespace) === namespace;
  return isThere && matchesSelector(selector, metadata.labels ?? {});
}

async function findNamed(
  store: AllocationStore & ResourceStore,
  kind: ResourceKind,
  question: Question,
): Promise<Listing> {
  const { names, namespace = DEFAULT_NAMESPACE, signal } = question;
  const items: VisibleResource[] = [];
  const missing: Error[] = [];
  for (const name of names) {
    try {
      const resource = await store.findResource({ kind, namespace, name }, signal);
      if (resource === undefined) missing.push(resourceNotFound({ kind, namespace, name }));
      else items.push(resource);
    } catch (cause) {
      // One unreadable record must not hide the others; a datastore that does not answer hides all.
      if (!isNetplugError(cause, 'store/corrupt')) throw cause;
      missing.push(cause);
    }
  }
  return { kind, items, problems: [], missing };
}

async function listEndpoints(store: AllocationStore & ResourceStore, question: Question): Promise<Listing> {
  const { names, signal } = question;
  const { endpoints, problems } = await store.listEndpoints(undefined, signal);
  const items = endpoints
    .map(({ value, version }) => ({ ...value, metadata: { ...value.metadata, resourceVersion: version } }))
    .filter(({ metadata, ...rest }) =>
      isWanted({ ...rest, metadata: { namespace: DEFAULT_NAMESPACE, ...metadata } }, question),
    )
    .filter((each) => names.length === 0 || names.some((name) => isNamed(each, name)));
  const missing = names.filter((name) => !items.some((each) => isNamed(each, name))).map(endpointNotFound);
  return { kind: 'WorkloadEndpoint', items, problems, missing };
}

function isNamed({ metadata, spec }: WorkloadEndpoint, name: string): boolean {
  return metadata.name === name || spec.pod === name;
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
