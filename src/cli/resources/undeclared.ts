import { isRecord } from '../../model/read-schema.ts';
import { type Schema, shapeOf } from '../../model/schema-shape.ts';

/**
 * The value without the fields that the schema does not declare, at any depth, as far as one of `known` has them in the same
 * place. Which item of a list they stand in does not matter: items move.
 */
export function withoutUndeclared(value: unknown, known: readonly unknown[], schema: Schema): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'array' && Array.isArray(value)) {
    const items = known.flatMap((each): readonly unknown[] => (Array.isArray(each) ? each : []));
    return value.map((item) => withoutUndeclared(item, items, shape.item));
  }
  if (shape.kind !== 'object' || !isRecord(value)) return value;
  const records = known.filter(isRecord);
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, part]): [string, unknown][] => {
      const declared = shape.entries[key];
      if (declared !== undefined)
        return [
          [
            key,
            withoutUndeclared(
              part,
              records.map((each) => each[key]),
              declared,
            ),
          ],
        ];
      return records.some((each) => Object.hasOwn(each, key)) ? [] : [[key, part]];
    }),
  );
}

/** What was read, with the undeclared fields of what it was read from. */
export function withUndeclared(read: unknown, from: unknown, schema: Schema): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'array' && Array.isArray(read) && Array.isArray(from)) {
    return read.map((item, index) => withUndeclared(item, from[index], shape.item));
  }
  if (shape.kind !== 'object' || !isRecord(read) || !isRecord(from)) return read;
  const undeclared = Object.entries(from).filter(([key]) => !Object.hasOwn(shape.entries, key));
  const declared = Object.entries(read).map(([key, part]) => {
    const schemaOfPart = shape.entries[key];
    return [key, schemaOfPart === undefined ? part : withUndeclared(part, from[key], schemaOfPart)];
  });
  return Object.fromEntries([...undeclared, ...declared]);
}
