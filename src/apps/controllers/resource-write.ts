import { never } from '../../base/errors.ts';
import type { ResourceStore } from '../../datastore/resource-store.ts';
import { CONTROLLERS, CREATED_BY_LABEL } from '../../model/automatic-host-endpoint.ts';
import type { AnyResource } from '../../model/kinds.ts';
import type { ResourceId } from '../../model/resource-id.ts';

/** A write of one resource. Updates and deletions expect the version that was observed. */
export type ResourceWrite =
  | { readonly kind: 'create'; readonly resource: AnyResource }
  | { readonly kind: 'update'; readonly resource: AnyResource }
  | { readonly kind: 'delete'; readonly which: ResourceId; readonly version: string };

/** Labels of what the controllers make. */
export const OWN_LABELS = { [CREATED_BY_LABEL]: CONTROLLERS } as const;

/** Reports whether the controllers made the resource; removing the label takes it over. */
export function isOwn({ metadata }: Pick<AnyResource, 'metadata'>): boolean {
  return metadata.labels?.[CREATED_BY_LABEL] === CONTROLLERS;
}

/** @throws resource/exists, resource/changed, resource/not-found, store/* */
export async function applyResourceWrite(
  store: ResourceStore,
  change: ResourceWrite,
  signal: AbortSignal,
): Promise<void> {
  switch (change.kind) {
    case 'create':
      await store.createResource(change.resource, signal);
      return;
    case 'update':
      await store.updateResource(change.resource, signal);
      return;
    case 'delete':
      await store.deleteResource({ ...change.which, resourceVersion: change.version }, signal);
      return;
    default:
      never(change);
  }
}
