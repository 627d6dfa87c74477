import { ownValue } from '../base/own-value.ts';
import { didYouMean, nearMiss } from '../base/near-miss.ts';
import { at, type Problem } from '../base/problem.ts';
import { isRecord } from './read-schema.ts';
import { type Schema, shapeOf } from './schema-shape.ts';

/** Returns a problem for each unknown field, at any depth. */
export function unknownFields(entries: Readonly<Record<string, Schema>>, raw: unknown, path: string): Problem[] {
  if (!isRecord(raw)) return [];
  const known = Object.keys(entries);
  return Object.entries(raw).flatMap(([key, value]) => {
    const schema = ownValue(entries, key);
    return schema === undefined
      ? [unknownField(at(path, key), { key, known })]
      : unknownWithin(schema, value, at(path, key));
  });
}

/** Returns the path without the indexes of items, which change when a list changes. */
export function inAnyItem(path: string): string {
  return path.replaceAll(/\[\d+\]/g, '[]');
}

export function unknownField(path: string, { key, known }: { key: string; known: readonly string[] }): Problem {
  const meant = nearMiss(key, known);
  const hint = meant === undefined ? {} : { hint: didYouMean(meant) };
  return { path, message: 'is not a known field', code: 'resource/invalid', ...hint };
}

function unknownWithin(schema: Schema, value: unknown, path: string): Problem[] {
  const shape = shapeOf(schema);
  if (shape.kind === 'object') return unknownFields(shape.entries, value, path);
  if (shape.kind === 'value' || !Array.isArray(value)) return [];
  return value.flatMap((each: unknown, index) => unknownWithin(shape.item, each, at(path, index)));
}
