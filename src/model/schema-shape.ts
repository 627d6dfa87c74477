import * as v from 'valibot';

export type Schema = v.GenericSchema;

/** The structure of a declared field. */
export type Shape =
  | { readonly kind: 'object'; readonly entries: Readonly<Record<string, Schema>> }
  /** `mergeKey` is the field that identifies an item. */
  | { readonly kind: 'array'; readonly item: Schema; readonly mergeKey: string | undefined }
  | { readonly kind: 'value' };

const MERGE_KEYS = 'x-kubernetes-list-map-keys';

/**
 * Marks the field that identifies the items of a list, so that two users can change different items. The API server
 * calls this a list-map key and tracks the field owner of each item.
 */
export function mergeKey<T>(key: string): v.MetadataAction<T, Readonly<Record<string, unknown>>> {
  return v.metadata({ 'x-kubernetes-list-type': 'map', [MERGE_KEYS]: [key] });
}

/** Returns the structure of a schema without its wrappers: options, defaults, pipes. */
export function shapeOf(schema: Schema): Shape {
  const bare = unwrapped(schema);
  if (has(bare, 'entries')) return { kind: 'object', entries: bare.entries as Readonly<Record<string, Schema>> };
  if (!has(bare, 'item')) return { kind: 'value' };
  return { kind: 'array', item: bare.item as Schema, mergeKey: mergeKeyOf(schema) };
}

/** Returns the description of a schema, or of the schema that it wraps. */
export function descriptionOf(schema: Schema): string | undefined {
  const said = v.getDescription(schema);
  return said !== undefined || !has(schema, 'wrapped') ? said : descriptionOf(schema.wrapped as Schema);
}

export function unwrapped(schema: Schema): Schema {
  return has(schema, 'wrapped') ? unwrapped(schema.wrapped as Schema) : schema;
}

function mergeKeyOf(schema: Schema): string | undefined {
  const { [MERGE_KEYS]: keys } = v.getMetadata(schema);
  if (Array.isArray(keys)) return String(keys[0]);
  return has(schema, 'wrapped') ? mergeKeyOf(schema.wrapped as Schema) : undefined;
}

/** The library types the parts of a schema only where its kind is known. */
function has<K extends string>(schema: Schema, key: K): schema is Schema & Readonly<Record<K, unknown>> {
  return Object.hasOwn(schema, key);
}
