import { findObject } from '../../../kube/objects/apply.ts';
import { collectionHolding, type ObjectReference, referenceOf, referenceTo } from '../../../kube/objects/reference.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { PODS } from '../../../kube/paths.ts';
import { asksSidecar } from '../../../mesh/compare-filter.ts';
import { envoyFilter, FILTER_NAME, SIDECAR_LABEL } from '../../../mesh/envoy-filter.ts';

/** What of a service mesh needs netplug: without agents, a sidecar that is asked answers 503 for ever. */
export interface MeshRemains {
  /** Filters that netplug has made. */
  readonly filters: readonly ObjectReference[];
  /** Filters of others that ask its sidecars. */
  readonly foreign: readonly ObjectReference[];
  /** Number of pods that have a sidecar, by namespace. */
  readonly pods: ReadonlyMap<string, number>;
}

/** Selects pods whose proxies ask their sidecar. */
export const SIDECAR_SELECTOR = Object.entries(SIDECAR_LABEL)
  .map((pair) => pair.join('='))
  .join();

const { apiVersion, kind } = referenceOf(envoyFilter());

/** Returns the EnvoyFilters of all namespaces; undefined where the API does not serve them. @throws store/* */
export async function listFilters(api: OrchApi, signal: AbortSignal): Promise<readonly ApiObject[] | undefined> {
  const collection = collectionHolding({ apiVersion, kind, namespace: '', name: '' });
  const definition = referenceTo('CustomResourceDefinition', { name: `${collection.plural}.${collection.group}` });
  const isServed = (await findObject(api, definition, signal)) !== undefined;
  return isServed ? api.list(collection, {}, signal) : undefined;
}

/** Finds what of the mesh asks netplug, in all namespaces. @throws store/* */
export async function findMeshRemains(api: OrchApi, signal: AbortSignal): Promise<MeshRemains> {
  const filters = (await listFilters(api, signal)) ?? [];
  const asking = filters
    .filter(({ spec }) => asksSidecar(spec))
    .map(({ metadata: { name, namespace = '' } }) => ({ apiVersion, kind, namespace, name }));
  const pods = await api.list(PODS, { labelSelector: SIDECAR_SELECTOR, only: 'names' }, signal);
  const byNamespace = Map.groupBy(pods, ({ metadata: { namespace = '' } }) => namespace);
  return {
    filters: asking.filter(({ name }) => name === FILTER_NAME),
    foreign: asking.filter(({ name }) => name !== FILTER_NAME),
    pods: new Map(Array.from(byNamespace, ([namespace, { length }]) => [namespace, length])),
  };
}

/** Returns a sentence for each thing that a removal of netplug leaves, with what takes it away. */
export function meshNotes({ foreign, pods }: MeshRemains): readonly string[] {
  const counts = Array.from(pods, ([namespace, count]) => `${namespace} (${String(count)})`).join(', ');
  return [
    ...foreign.map(
      ({ namespace, name }) =>
        `left: EnvoyFilter ${namespace}/${name} asks netplug-sidecar, and without netplug its requests fail: "kubectl delete envoyfilter ${name} -n ${namespace}"`,
    ),
    ...(counts === ''
      ? []
      : [
          `left: pods with netplug-sidecar in namespaces ${counts}: they run on, but new ones do not start. Remove the annotation inject.istio.io/templates of their workloads first, or the template "netplug" of the mesh`,
        ]),
  ];
}
