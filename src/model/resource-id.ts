import { type AnyResource, KINDS, type ResourceKind } from './kinds.ts';

/** Where a resource goes that could be in any namespace. */
export const DEFAULT_NAMESPACE = 'default';

/** What makes a resource this one and no other. */
export interface ResourceId<K extends ResourceKind = ResourceKind> {
  readonly kind: K;
  /** Only of kinds that are in namespaces; `default` when left out. */
  readonly namespace?: string;
  readonly name: string;
}

/** The same, said in full: with a namespace where the kind is in namespaces, without where it is not. */
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
