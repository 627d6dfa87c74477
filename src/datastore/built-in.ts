import { NetplugError } from '../base/errors.ts';
import type { AnyResource, ResourceKind, ResourceOf } from '../model/kinds.ts';
import { DEFAULT_ALLOW } from '../model/profile.ts';
import { type ResourceId, resourceIdOf, showResourceId } from '../model/resource-id.ts';
import { compareResources } from './order.ts';
import { resourceFacts } from './resource-errors.ts';

/** Resources that every cluster has and no datastore stores. */
const BUILT_IN: readonly AnyResource[] = [DEFAULT_ALLOW];

export function findBuiltIn<K extends ResourceKind>(which: ResourceId<K>): ResourceOf<K> | undefined {
  const found = BUILT_IN.find((resource) => showResourceId(resourceIdOf(resource)) === showResourceId(which));
  // It has the kind that was asked for; the compiler does not connect the two.
  return found as ResourceOf<K> | undefined;
}

/** Returns the stored and built-in resources of a kind. A built-in resource replaces a stored one of its name. */
export function withBuiltIns<K extends ResourceKind>(kind: K, stored: readonly ResourceOf<K>[]): ResourceOf<K>[] {
  // As above.
  const builtIn = BUILT_IN.filter((resource) => resource.kind === kind) as ResourceOf<K>[];
  const others = stored.filter((resource) => findBuiltIn(resourceIdOf(resource)) === undefined);
  return [...others, ...builtIn].sort(compareResources);
}

/** @throws resource/not-writable */
export function refuseBuiltIn(which: ResourceId): void {
  if (findBuiltIn(which) === undefined) return;
  throw new NetplugError('resource/not-writable', `Cannot write ${showResourceId(which)}: it is built in`, {
    hint: 'Choose another name',
    facts: resourceFacts(which),
  });
}
