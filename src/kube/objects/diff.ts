import { ownValue } from '../../base/own-value.ts';
import type { Manifest } from '../../model/manifest.ts';
import { isDeepStrictEqual } from 'node:util';
import { at, showFound } from '../../base/problem.ts';
import { isRecord } from '../../model/read-schema.ts';
import { objectContent } from './content.ts';
import { structuredOf } from './structured.ts';

/** A step of a path: a key of an object, an element of a list by one of its fields, or an element equal to a JSON text. */
export type FieldStep = string | { readonly key: string; readonly is: string } | { readonly element: string };

export interface Difference {
  readonly path: readonly FieldStep[];
  /** Undefined for what was added. */
  readonly was: unknown;
  /** Undefined for what was removed. */
  readonly is: unknown;
}

/** Fields that identify elements of lists: of mounts, containers and variables, plugins. */
const LIST_KEYS = ['mountPath', 'name', 'type'] as const;
/** Lists of which the order matters. Elements without a field that identifies them are not compared one by one. */
const ORDERED = new Set<unknown>(['plugins']);

/** Returns what differs between two states of an object in what users write, with texts that have parts taken apart. */
export function diffObjects(was: Manifest, is: Manifest): readonly Difference[] {
  return diffValues({ path: [], was: structuredOf(objectContent(was)), is: structuredOf(objectContent(is)) });
}

/** Returns the innermost differences between the values at a path. */
export function diffValues(difference: Difference): readonly Difference[] {
  const { path, was, is } = difference;
  if (isDeepStrictEqual(was, is)) return [];
  if (isRecord(was) && isRecord(is)) {
    const keys = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    return keys.flatMap((key) => diffValues({ path: [...path, key], was: ownValue(was, key), is: ownValue(is, key) }));
  }
  if (!isListOfRecords(was) || !isListOfRecords(is)) return [difference];
  const key = keyOfLists(was, is);
  if (key === undefined && ORDERED.has(path.at(-1))) return [difference];
  const step = elementStep(key);
  const [before, after] = [was, is].map((list) => new Map(list.map((each) => [JSON.stringify(step(each)), each])));
  const places = new Map([...was, ...is].map((each) => [JSON.stringify(step(each)), step(each)]));
  return [...places].flatMap(([id, place]) =>
    diffValues({ path: [...path, place], was: before?.get(id), is: after?.get(id) }),
  );
}

/**
 * Returns the paths at which the live object lacks what is desired. Further fields and further entries of lists with names
 * do not count: defaults, and what others own.
 */
export function missingPaths(desired: unknown, live: unknown, path: readonly FieldStep[] = []): readonly string[] {
  if (isEmpty(desired) && live === undefined) return [];
  if (isRecord(desired) && isRecord(live)) {
    return Object.entries(desired).flatMap(([key, value]) => missingPaths(value, ownValue(live, key), [...path, key]));
  }
  if (isListOfRecords(desired) && isListOfRecords(live)) {
    const key = keyOfLists(desired, live);
    if (key !== undefined || desired.length === live.length) {
      return desired.flatMap((entry, index) => {
        const twin =
          key === undefined ? live[index] : live.find((each) => ownValue(each, key) === ownValue(entry, key));
        return missingPaths(entry, twin, [...path, elementStep(key)(entry)]);
      });
    }
  }
  return isDeepStrictEqual(desired, live) ? [] : [pathText(path)];
}

/** Returns the line about a difference for users. */
export function differenceLine({ path, was, is }: Difference, show = showFound): string {
  const place = pathText(path);
  if (was === undefined) return `${place}: ${show(is)} added`;
  if (is === undefined) return `${place}: ${show(was)} removed`;
  return `${place}: ${show(is)} in place of ${show(was)}`;
}

export function pathText(path: readonly FieldStep[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'string') return at(text, step);
    return 'key' in step ? `${text}[${step.is}]` : `${text}[]`;
  }, '');
}

/** Returns the field by which the elements of both lists can be told apart. */
function keyOfLists(...lists: readonly (readonly Manifest[])[]): string | undefined {
  return LIST_KEYS.find((name) =>
    lists.every((list) => {
      const found = list.map((element) => element[name]);
      return found.every((value) => typeof value === 'string') && new Set(found).size === found.length;
    }),
  );
}

/** Elements are told apart by a field that each of them has once, and otherwise by all they hold. */
function elementStep(key: string | undefined): (element: Manifest) => Exclude<FieldStep, string> {
  if (key === undefined) return (element) => ({ element: canonical(element) });
  return (element) => ({ key, is: String(ownValue(element, key)) });
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

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
