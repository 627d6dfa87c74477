import type * as v from 'valibot';

type Schema = v.ObjectEntries[string];

/** The fields of what a schema reads, when that is an object with fields of its own. */
export function entriesOf(schema: Schema): v.ObjectEntries | undefined {
  const inner = innermost(schema);
  // The library's object schemas carry their entries under this name; the base type does not know them.
  return 'entries' in inner ? (inner.entries as v.ObjectEntries) : undefined;
}

/** The schema of each item of what a schema reads, when that is an array. */
export function itemOf(schema: Schema): Schema | undefined {
  const inner = innermost(schema);
  // As above.
  return 'item' in inner ? (inner.item as Schema) : undefined;
}

/** The schema of what stands in a document: behind pipes, and behind what may be left out. */
function innermost(schema: Schema): Schema {
  // A pipe begins with the schema of what is written; a wrapper holds it. The base type knows neither.
  if ('pipe' in schema) return innermost((schema.pipe as readonly [Schema])[0]);
  return 'wrapped' in schema ? innermost(schema.wrapped) : schema;
}
