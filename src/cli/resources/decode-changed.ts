import { isDeepStrictEqual } from 'node:util';
import { problemsError } from '../../base/problem.ts';
import { decodeResource } from '../../model/decode-resource.ts';
import { type AnyResource, KINDS } from '../../model/kinds.ts';
import { METADATA_FIELDS } from '../../model/metadata.ts';
import { isRecord } from '../../model/read-schema.ts';
import { resourceIdOf, showResourceId } from '../../model/resource-id.ts';

type Raw = Readonly<Record<string, unknown>>;

/**
 * Reads what a change has made of a stored resource, by the rules for written ones. Fields that this release does not know
 * may stay, change or go where they are stored; new ones are refused. @throws resource/invalid
 */
export function decodeChanged(stored: AnyResource, changed: unknown): AnyResource {
  const which = resourceIdOf(stored);
  const { known, unknown } = takeApart(changed, stored);
  const decoded = decodeResource(known);
  if ('problems' in decoded) throw problemsError(showResourceId(which), decoded.problems, 'resource/invalid');
  const { resource } = decoded;
  if (!isDeepStrictEqual(resourceIdOf(resource), which)) {
    const message = `found ${showResourceId(resourceIdOf(resource))}, allowed is what it was: a resource keeps its name`;
    throw problemsError(
      showResourceId(which),
      [{ path: 'metadata.name', message, code: 'resource/invalid' }],
      'resource/invalid',
    );
  }
  const { uid, creationTimestamp, resourceVersion } = stored.metadata;
  const identity = Object.fromEntries(
    Object.entries({ uid, creationTimestamp, resourceVersion }).filter(([, value]) => value !== undefined),
  );
  // The parts were those of one resource of this kind before they were taken apart.
  return {
    ...unknown.outside,
    ...resource,
    metadata: { ...unknown.metadata, ...resource.metadata, ...identity },
    spec: { ...unknown.spec, ...resource.spec },
  } as AnyResource;
}

/** Sets aside the fields that this release does not know and that are stored already. */
function takeApart(
  changed: unknown,
  stored: AnyResource,
): { known: unknown; unknown: { outside: Raw; metadata: Raw; spec: Raw } } {
  const outside = split(changed, stored, ['apiVersion', 'kind', 'metadata', 'spec']);
  const metadata = split(fieldOf(changed, 'metadata'), stored.metadata, Object.keys(METADATA_FIELDS));
  const spec = split(fieldOf(changed, 'spec'), stored.spec, Object.keys(KINDS[stored.kind].fields));
  const known = isRecord(outside.known)
    ? { ...outside.known, metadata: metadata.known, spec: spec.known }
    : outside.known;
  return { known, unknown: { outside: outside.unknown, metadata: metadata.unknown, spec: spec.unknown } };
}

function split(changed: unknown, stored: object, fields: readonly string[]): { known: unknown; unknown: Raw } {
  if (!isRecord(changed)) return { known: changed, unknown: {} };
  const isKept = ([key]: [string, unknown]): boolean => !fields.includes(key) && Object.hasOwn(stored, key);
  const entries = Object.entries(changed);
  return {
    known: Object.fromEntries(entries.filter((entry) => !isKept(entry))),
    unknown: Object.fromEntries(entries.filter(isKept)),
  };
}

function fieldOf(value: unknown, key: string): unknown {
  return isRecord(value) ? value[key] : undefined;
}
