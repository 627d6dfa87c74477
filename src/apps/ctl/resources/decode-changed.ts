import { isDeepStrictEqual } from 'node:util';
import { type Problem, problemsError } from '../../../base/problem.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { resourceIdOf, showResourceId } from '../../../model/resource-id.ts';
import { inAnyItem, unknownFields } from '../../../model/unknown-fields.ts';
import { byPlace, declaredPart, keepUnknown } from './keep-unknown.ts';
import { schemaOf } from './merge-resource.ts';

/**
 * Reads what a change has made of a stored resource, by the rules for written ones. Fields that this release does not know
 * may stay, change or go where they are stored, at any depth; new ones are refused. @throws resource/invalid
 */
export function decodeChanged(stored: AnyResource, changed: unknown): AnyResource {
  const which = resourceIdOf(stored);
  const refuse = (problems: readonly Problem[]): never => {
    throw problemsError(showResourceId(which), problems, 'resource/invalid');
  };
  const schema = schemaOf(stored.kind);
  const known = new Set(unknownFields(schema.entries, stored, '').map(({ path }) => inAnyItem(path)));
  const added = unknownFields(schema.entries, changed, '').filter(({ path }) => !known.has(inAnyItem(path)));
  if (added.length > 0) return refuse(added);
  const decoded = decodeResource(declaredPart(changed, schema));
  if ('problems' in decoded) return refuse(decoded.problems);
  const { resource } = decoded;
  if (!isDeepStrictEqual(resourceIdOf(resource), which)) {
    const message = `found ${showResourceId(resourceIdOf(resource))}, allowed is what it was: a resource keeps its name`;
    return refuse([{ path: 'metadata.name', message, code: 'resource/invalid' }]);
  }
  const { uid, creationTimestamp, resourceVersion } = stored.metadata;
  const identity = Object.fromEntries(
    Object.entries({ uid, creationTimestamp, resourceVersion }).filter(([, value]) => value !== undefined),
  );
  // It was decoded from what changed, so its kind is the same and its lists have the same items.
  const whole = keepUnknown(resource, { stored: changed, schema }, byPlace) as AnyResource;
  return { ...whole, metadata: { ...whole.metadata, ...identity } };
}
