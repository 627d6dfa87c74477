import { isDeepStrictEqual } from 'node:util';
import type { ApiObject } from '../../src/kube/objects.ts';
import type { OrchApi } from '../../src/kube/orch-api.ts';
import type { Collection } from '../../src/kube/paths.ts';
import type { Json } from './node.ts';

/** Writes fields of the status of an object as it was read, and nothing where they have the values: a write costs the API server much. */
export async function putStatus(
  api: OrchApi,
  {
    collection,
    object,
    status,
  }: { readonly collection: Collection; readonly object: ApiObject; readonly status: Readonly<Record<string, Json>> },
  signal: AbortSignal,
): Promise<void> {
  const before = (object as Json).status ?? {};
  // The API server leaves numbers out that are zero.
  const isSame = Object.entries(status).every(([field, value]) => isDeepStrictEqual(before[field] ?? 0, value));
  if (isSame) return;
  const { name } = object.metadata;
  await api.patch({ collection, name, subresource: 'status' }, { kind: 'merge', body: { status } }, signal);
}
