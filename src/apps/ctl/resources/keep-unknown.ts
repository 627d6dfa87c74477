import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../../../base/own-value.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { type Schema, type Shape, shapeOf } from '../../../model/schema-shape.ts';

/** Says which item of a stored list an item of a wanted one was before. */
type Twins = (
  items: readonly unknown[],
  wanted: { readonly each: unknown; readonly index: number },
  list: List,
) => unknown;
type List = Pick<Extract<Shape, { kind: 'array' }>, 'item' | 'mergeKey'>;

/** The one in the same place. */
export const byPlace: Twins = (items, { index }) => items[index];

/** The one whose merge key is the same, or else everything that is declared. */
const byIdentity: Twins = (items, { each }, { item, mergeKey }) => {
  const identityOf = (one: unknown): unknown =>
    mergeKey !== undefined && isRecord(one) ? ownValue(one, mergeKey) : declaredPart(one, item);
  return items.find((other) => isDeepStrictEqual(identityOf(other), identityOf(each)));
};

interface Kept {
  readonly stored: unknown;
  readonly schema: Schema;
}

/**
 * Returns what is wanted, plus every field of what is stored that the schema does not declare, at any depth: so an older
 * tool drops nothing a newer one wrote.
 */
export function keepUnknown(wanted: unknown, { stored, schema }: Kept, twinOf: Twins = byIdentity): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'object' && isRecord(stored) && isRecord(wanted)) {
    const { entries } = shape;
    const kept = Object.entries(stored).filter(([key]) => !Object.hasOwn(entries, key));
    const merged = Object.entries(wanted).map(([key, value]) => {
      const declared = ownValue(entries, key);
      return [
        key,
        declared === undefined
          ? value
          : keepUnknown(value, { stored: ownValue(stored, key), schema: declared }, twinOf),
      ];
    });
    return Object.fromEntries([...kept, ...merged]);
  }
  if (shape.kind !== 'array' || !Array.isArray(stored) || !Array.isArray(wanted)) return wanted;
  return wanted.map((each: unknown, index) =>
    keepUnknown(each, { stored: twinOf(stored, { each, index }, shape), schema: shape.item }, twinOf),
  );
}

/** The fields that the schema declares, at any depth. */
export function declaredPart(value: unknown, schema: Schema): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'array' && Array.isArray(value)) return value.map((each) => declaredPart(each, shape.item));
  if (shape.kind !== 'object' || !isRecord(value)) return value;
  const declared = Object.entries(shape.entries).filter(([key]) => ownValue(value, key) !== undefined);
  return Object.fromEntries(declared.map(([key, entry]) => [key, declaredPart(ownValue(value, key), entry)]));
}
