import { isDeepStrictEqual } from 'node:util';
import { isRecord } from '../../model/read-schema.ts';
import { type Schema, shapeOf } from '../../model/schema-shape.ts';

/**
 * What is wanted, plus every field of what is stored that the schema does not declare, at any depth: so an older tool drops
 * nothing a newer one wrote. Items of a list are the same when their merge key is, or else everything that is declared.
 */
export function keepUnknown(stored: unknown, wanted: unknown, schema: Schema): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'object' && isRecord(stored) && isRecord(wanted)) {
    const { entries } = shape;
    const kept = Object.entries(stored).filter(([key]) => !Object.hasOwn(entries, key));
    const merged = Object.entries(wanted).map(([key, value]) => {
      const declared = entries[key];
      return [key, declared === undefined ? value : keepUnknown(stored[key], value, declared)];
    });
    return Object.fromEntries([...kept, ...merged]);
  }
  if (shape.kind !== 'array' || !Array.isArray(stored) || !Array.isArray(wanted)) return wanted;
  const { item, mergeKey } = shape;
  const identityOf = (each: unknown): unknown =>
    mergeKey !== undefined && isRecord(each) ? each[mergeKey] : declaredPart(each, item);
  return wanted.map((each: unknown) => {
    const twin: unknown = stored.find((other) => isDeepStrictEqual(identityOf(other), identityOf(each)));
    return twin === undefined ? each : keepUnknown(twin, each, item);
  });
}

function declaredPart(value: unknown, schema: Schema): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'array' && Array.isArray(value)) return value.map((each) => declaredPart(each, shape.item));
  if (shape.kind !== 'object' || !isRecord(value)) return value;
  const declared = Object.entries(shape.entries).filter(([key]) => value[key] !== undefined);
  return Object.fromEntries(declared.map(([key, entry]) => [key, declaredPart(value[key], entry)]));
}
