import { type AnyResource, KINDS, type ResourceKind } from './kinds.ts';

/** The namespace of a resource of a namespaced kind that names none. */
export const DEFAULT_NAMESPACE = 'default';

/** Identifies a resource. */
export interface ResourceId<K extends ResourceKind = ResourceKind> {
  readonly kind: K;
  /** Only for namespaced kinds; `default` when absent. */
  readonly namespace?: string;
  readonly name: string;
}

/** Returns the id with a namespace for a namespaced kind, and without one for a cluster-scoped kind. */
export function fullId<K extends ResourceKind>({ kind, namespace, name }: ResourceId<K>): ResourceId<K> {
  return KINDS[kind].scope === 'namespace' ? { kind, namespace: namespace ?? DEFAULT_NAMESPACE, name } : { kind, name };
}

export function resourceIdOf({ kind, metadata: { namespace, name } }: AnyResource): ResourceId {
  return fullId({ kind, name, ...(namespace === undefined ? {} : { namespace }) });
}

/** Formats the id for messages: `IPPool "blue"`, `NetworkSet "shop/blue"`. */
export function showResourceId(which: ResourceId): string {
  const { kind, namespace, name } = fullId(which);
  return `${kind} "${namespace === undefined ? '' : `${namespace}/`}${name}"`;
}
