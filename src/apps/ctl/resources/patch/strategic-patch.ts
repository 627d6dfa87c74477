import { ownValue } from '../../../../base/own-value.ts';
import { at, showFound } from '../../../../base/problem.ts';
import { isRecord } from '../../../../model/read-schema.ts';
import { type Schema, type Shape, shapeOf } from '../../../../model/schema-shape.ts';
import { patchUnusable } from './patch-errors.ts';

type Raw = Readonly<Record<string, unknown>>;
type ListShape = Extract<Shape, { kind: 'array' }>;

const DIRECTIVES = ['merge', 'replace', 'delete'] as const;
type Directive = (typeof DIRECTIVES)[number];

/**
 * The document after a patch that knows what the document is: like a merge patch, but the items of a list whose
 * declaration names a merge key are matched by it, and those the patch does not name stay. `$patch` says of an object or
 * item that it is to be deleted, or replaced instead of merged; alone in a list, of the whole list.
 * @throws resource/invalid for what is no such patch
 */
export function applyStrategicPatch(document: unknown, patch: unknown, schema: Schema): unknown {
  if (!isRecord(patch)) throw patchUnusable('', `found ${showFound(patch)}, allowed is an object`);
  return merge(document, patch, { schema, path: '' });
}

interface Part {
  /** Undefined for what is not declared. */
  readonly schema: Schema | undefined;
  /** In the patch. */
  readonly path: string;
}

function merge(document: unknown, patch: unknown, { schema, path }: Part): unknown {
  const shape = schema === undefined ? undefined : shapeOf(schema);
  if (isRecord(patch)) return mergeObject(document, patch, { shape, path });
  if (!Array.isArray(patch) || shape?.kind !== 'array' || shape.mergeKey === undefined) return patch;
  return mergeList(Array.isArray(document) ? document : [], patch, { shape, mergeKey: shape.mergeKey, path });
}

function mergeObject(document: unknown, patch: Raw, { shape, path }: { shape: Shape | undefined; path: string }): Raw {
  const entries = shape?.kind === 'object' ? shape.entries : {};
  const isMerged = directiveOf(patch, path) === 'merge';
  const merged = new Map(isMerged && isRecord(document) ? Object.entries(document) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (key === '$patch') continue;
    const where = at(path, key);
    if (key.startsWith('$')) throw patchUnusable(where, 'is not supported; allowed is "$patch"');
    if (value === null || isDeletion(value, where)) merged.delete(key);
    else merged.set(key, merge(merged.get(key), value, { schema: ownValue(entries, key), path: where }));
  }
  return Object.fromEntries(merged);
}

function mergeList(
  document: readonly unknown[],
  patch: readonly unknown[],
  { shape, mergeKey, path }: { shape: ListShape; mergeKey: string; path: string },
): readonly unknown[] {
  // Nothing but the order to replace the list it stands in.
  const isReplacement = (item: unknown): boolean =>
    isRecord(item) && item['$patch'] === 'replace' && Object.keys(item).length === 1;
  const items = patch.some(isReplacement) ? [] : [...document];
  for (const [index, item] of patch.entries()) {
    if (isReplacement(item)) continue;
    const where = at(path, index);
    const key = isRecord(item) ? ownValue(item, mergeKey) : undefined;
    if (key === undefined) throw patchUnusable(at(where, mergeKey), 'missing: required merge key of the list');
    const place = items.findIndex((each) => isRecord(each) && ownValue(each, mergeKey) === key);
    if (isDeletion(item, where)) items.splice(place, place === -1 ? 0 : 1);
    else {
      const merged = merge(items[place], item, { schema: shape.item, path: where });
      items.splice(place === -1 ? items.length : place, 1, merged);
    }
  }
  return items;
}

function isDeletion(value: unknown, path: string): boolean {
  return isRecord(value) && directiveOf(value, path) === 'delete';
}

function directiveOf(patch: Raw, path: string): Directive {
  const found = patch['$patch'] ?? 'merge';
  const directive = DIRECTIVES.find((known) => known === found);
  if (directive !== undefined) return directive;
  const allowed = DIRECTIVES.map((each) => `"${each}"`).join(', ');
  throw patchUnusable(at(path, '$patch'), `found ${showFound(found)}, allowed is ${allowed}`);
}
