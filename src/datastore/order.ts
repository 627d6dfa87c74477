import type { AnyResource } from '../model/kinds.ts';
import type { EndpointId } from '../model/workload-endpoint.ts';

/** Plain code-unit order, the same in every datastore and locale. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Orders resources of one kind by namespace and name. */
export function compareResources({ metadata: a }: AnyResource, { metadata: b }: AnyResource): number {
  return a.namespace === b.namespace ? compareText(a.name, b.name) : compareText(a.namespace ?? '', b.namespace ?? '');
}

/** Orders endpoints by namespace and name, then node. */
export function compareEndpointIds(a: EndpointId, b: EndpointId): number {
  if (a.namespace !== b.namespace) return compareText(a.namespace, b.namespace);
  return a.name === b.name ? compareText(a.node, b.node) : compareText(a.name, b.name);
}
