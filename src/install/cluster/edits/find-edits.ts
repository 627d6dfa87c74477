import { isDeepStrictEqual } from 'node:util';
import type { Manifest } from '../../../model/manifest.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { findReference, referenceKey } from '../../../kube/objects/reference.ts';
import type { EditStep, ManifestEdit } from './edit.ts';
import { structuredOf } from './structured.ts';

/** Fields that identify elements of lists: of mounts, containers and variables, plugins. */
const LIST_KEYS = ['mountPath', 'name', 'type'] as const;
/** Lists of which the order matters. Elements without a field that identifies them are not edited one by one. */
const ORDERED = new Set<unknown>(['plugins']);

/** Returns the objects by their keys, with texts taken apart. Documents without a name are left out. */
export function structuredObjects(objects: readonly unknown[]): ReadonlyMap<string, Manifest> {
  return new Map(
    objects.flatMap((object) => {
      const which = findReference(object);
      return which === undefined || !isRecord(object) ? [] : [[referenceKey(which), structuredOf(object)]];
    }),
  );
}

/** Returns the edits that turn the objects of a release into those that a user applied. */
export function findEdits(pristine: readonly unknown[], edited: readonly unknown[]): readonly ManifestEdit[] {
  const [before, after] = [structuredObjects(pristine), structuredObjects(edited)];
  const keys = [...new Set([...before.keys(), ...after.keys()])];
  return keys.flatMap((object) => {
    const [was, is] = [before.get(object), after.get(object)];
    if (was === undefined || is === undefined) return [{ object, path: [], was, is }];
    return editsOf({ object, path: [], was, is });
  });
}

function editsOf(edit: ManifestEdit): readonly ManifestEdit[] {
  const { object, path, was, is } = edit;
  if (isDeepStrictEqual(was, is)) return [];
  if (isRecord(was) && isRecord(is)) {
    const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return keys.flatMap((key) => editsOf({ object, path: [...path, key], was: was[key], is: is[key] }));
  }
  if (!isListOfRecords(was) || !isListOfRecords(is)) return [edit];
  const field = LIST_KEYS.find((name) => [was, is].every((list) => isKeyOf(list, name)));
  if (field === undefined && ORDERED.has(path.at(-1))) return [edit];
  const step = elementStep(field);
  const [before, after] = [was, is].map((list) => new Map(list.map((each) => [JSON.stringify(step(each)), each])));
  const places = new Map([...was, ...is].map((each) => [JSON.stringify(step(each)), step(each)]));
  return [...places].flatMap(([id, place]) =>
    editsOf({ object, path: [...path, place], was: before?.get(id), is: after?.get(id) }),
  );
}

/** Elements are told apart by a field that each of them has once, and otherwise by all they hold. */
function elementStep(key: string | undefined): (element: Manifest) => EditStep {
  if (key === undefined) return (element) => ({ element: canonical(element) });
  return (element) => ({ key, is: String(element[key]) });
}

function isKeyOf(list: readonly Manifest[], name: string): boolean {
  const found = list.map((element) => element[name]);
  return found.every((value) => typeof value === 'string') && new Set(found).size === found.length;
}

export function isListOfRecords(value: unknown): value is readonly Manifest[] {
  return Array.isArray(value) && value.every((element) => isRecord(element));
}

/** Returns JSON that does not depend on the order of keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isRecord(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
