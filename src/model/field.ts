// Words for declaring fields: their messages complete "allowed is …", and the reference pages show their descriptions.

import * as v from 'valibot';

type Described<S extends v.GenericSchema> = v.SchemaWithPipe<
  readonly [S, v.DescriptionAction<v.InferOutput<S>, string>]
>;
type ReadonlyOf<S extends v.GenericSchema> = v.SchemaWithPipe<readonly [S, v.ReadonlyAction<v.InferOutput<S>>]>;

/** Spec with these fields, as it is decoded. */
export type SpecOf<E extends v.ObjectEntries> = Readonly<v.InferOutput<v.ObjectSchema<E, undefined>>>;

/** Declares a field with its description. */
export function field<const S extends v.GenericSchema>(schema: S, about: string): Described<S> {
  return v.pipe(schema, v.description(about));
}

/** Declares a field that may be absent. */
export function optionalField<const S extends v.GenericSchema>(
  schema: S,
  about: string,
): v.OptionalSchema<Described<S>, undefined> {
  return v.optional(field(schema, about));
}

/** `fields` names those that users write most, such as `name and port`. */
export function objectWith<const E extends v.ObjectEntries>(
  fields: string,
  entries: E,
): ReadonlyOf<v.LooseObjectSchema<E, string>> {
  return v.pipe(v.looseObject(entries, `an object with ${fields}`), v.readonly());
}

/** `what` names the list, such as `an array of ports`. */
export function listOf<const S extends v.GenericSchema>(item: S, what: string): ReadonlyOf<v.ArraySchema<S, string>> {
  return v.pipe(v.array(item, what), v.readonly());
}

/** One of a few words. */
export function oneOf<const W extends readonly string[]>(words: W): v.PicklistSchema<W, string> {
  const quoted = words.map((word) => `"${word}"`);
  const last = quoted.pop() ?? '';
  return v.picklist(words, quoted.length === 0 ? last : `${quoted.join(', ')} or ${last}`);
}
