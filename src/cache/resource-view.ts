import { isDeepStrictEqual } from 'node:util';
import { findBuiltIn, withBuiltIns } from '../datastore/built-in.ts';
import type { FollowStore } from '../datastore/follow.ts';
import { unversioned } from '../datastore/stored-resource.ts';
import type { ResourceKind, ResourceOf } from '../model/kinds.ts';
import type { ResourceId } from '../model/resource-id.ts';
import { type Delta, RecordCache } from './record-cache.ts';

/** One change of the resources of a kind. Changes of only the version are skipped. */
export type ResourceChange<K extends ResourceKind = ResourceKind> =
  /** All resources, ordered by namespace and name. Always the first, and once. */
  | { readonly kind: 'all'; readonly resources: readonly ResourceOf<K>[]; readonly problems: readonly string[] }
  /** Created or changed; `problem` names the part that could not be read. */
  | { readonly kind: 'put'; readonly resource: ResourceOf<K>; readonly problem?: string }
  /** Deleted, or no longer readable for the reason in `problem`. */
  | { readonly kind: 'deleted'; readonly which: ResourceId<K>; readonly problem?: string };

/** Follows the resources of one kind, including built-in ones. */
export async function* followResources<K extends ResourceKind>(
  store: FollowStore,
  kind: K,
  signal: AbortSignal,
): AsyncGenerator<ResourceChange<K>> {
  const cache = new RecordCache();
  let isFirst = true;
  for await (const event of store.follow([{ kind: 'resources', of: kind }], { signal })) {
    const deltas = cache.apply(event);
    if (isFirst) yield everything(cache, kind);
    else yield* deltas.flatMap((delta) => changeOf<K>(delta));
    isFirst = false;
  }
}

function everything<K extends ResourceKind>(cache: RecordCache, kind: K): ResourceChange<K> {
  const records = [...cache.records()];
  // The query returns only this kind.
  const stored = records.flatMap(({ value }) => value ?? []) as ResourceOf<K>[];
  return {
    kind: 'all',
    resources: withBuiltIns(kind, stored),
    problems: records.flatMap(({ problem }) => problem ?? []),
  };
}

function changeOf<K extends ResourceKind>({ before, after }: Delta): readonly ResourceChange<K>[] {
  if (after.kind !== 'resource' || findBuiltIn(after.which) !== undefined) return [];
  const known = before?.kind === 'resource' && before.value !== undefined ? unversioned(before.value) : undefined;
  const now = after.value === undefined ? undefined : unversioned(after.value);
  if (before?.problem === after.problem && isDeepStrictEqual(known, now)) return [];
  const problem = after.problem === undefined ? {} : { problem: after.problem };
  // The query returns only this kind.
  if (after.value === undefined) return [{ kind: 'deleted', which: after.which as ResourceId<K>, ...problem }];
  return [{ kind: 'put', resource: after.value as ResourceOf<K>, ...problem }];
}
