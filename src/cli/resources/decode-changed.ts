import { isDeepStrictEqual } from 'node:util';
import { type Problem, problemsError } from '../../base/problem.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import type { AnyResource } from '../../model/kinds.ts';
import { resourceIdOf, showResourceId } from '../../model/resource-id.ts';
import { schemaOf } from './merge-resource.ts';
import { withoutUndeclared, withUndeclared } from './undeclared.ts';

/**
 * Reads what a change has made of a stored resource, by the rules for written ones. Fields that this release does not know
 * may stay, change or go where they are stored; new ones are refused. @throws resource/invalid
 */
export function decodeChanged(stored: AnyResource, changed: unknown): AnyResource {
  const which = resourceIdOf(stored);
  const schema = schemaOf(stored.kind);
  const decoded = decodeResource(withoutUndeclared(changed, [stored], schema));
  const problems = 'problems' in decoded ? decoded.problems : movedTo(decoded.resource);
  if ('problems' in decoded || problems.length > 0) {
    throw problemsError(showResourceId(which), problems, 'resource/invalid');
  }
  const { uid, creationTimestamp, resourceVersion } = stored.metadata;
  const identity = Object.entries({ uid, creationTimestamp, resourceVersion }).filter(
    ([, value]) => value !== undefined,
  );
  const { resource } = decoded;
  const metadata = { ...resource.metadata, ...Object.fromEntries(identity) };
  // What was read is a resource of this kind; undeclared fields do not make it another.
  return withUndeclared({ ...resource, metadata }, changed, schema) as AnyResource;

  function movedTo(resource: AnyResource): readonly Problem[] {
    const now = resourceIdOf(resource);
    if (isDeepStrictEqual(now, which)) return [];
    const message = `found ${showResourceId(now)}, allowed is what it was: a resource keeps its name`;
    return [{ path: 'metadata.name', message, code: 'resource/invalid' }];
  }
}
