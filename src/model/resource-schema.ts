import { type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from './kinds.ts';
import type { KindDeclaration } from './kind-info.ts';
import { API_VERSION } from './resource.ts';
import { descriptionOf, type Schema, shapeOf, unwrapped } from './schema-shape.ts';

// Only tools import this file, because its library is too large for the plugin.

/** Returns a pattern of the names that a kind allows. */
export function namePattern(names: NonNullable<KindDeclaration<never>['names']>): string {
  return names === 'default' ? '^default$' : String.raw`^(default|node\..+)$`;
}

/** Returns the schema of a spec: types, closed lists, defaults and descriptions, at any depth. */
export function specSchema(kind: ResourceKind): JsonSchema {
  const { fields, schemaRules = {} }: KindDeclaration<never> = KINDS[kind];
  const schema = v.looseObject(fields);
  // Only the decoder makes checks that a schema cannot express.
  const converted = withDescriptions(schema, toJsonSchema(schema, { typeMode: 'input', errorMode: 'ignore' }));
  const properties = mapProperties(converted.properties ?? {}, (part, field) => ({
    ...part,
    ...ownValue(schemaRules.properties, field),
  }));
  const { type = 'object', required = [] } = converted;
  return { type, properties, ...(required.length === 0 ? {} : { required }), ...schemaRules.spec };
}

/** Returns the schema of the status that netplug writes; undefined for a kind without one. */
export function statusSchema(kind: ResourceKind): JsonSchema | undefined {
  const { status }: KindDeclaration<never> = KINDS[kind];
  if (status === undefined) return undefined;
  const schema = v.looseObject(status);
  const { properties = {} } = withDescriptions(
    schema,
    toJsonSchema(schema, { typeMode: 'input', errorMode: 'ignore' }),
  );
  return { type: 'object', properties };
}

/** Returns the schema of one resource, for editors. Unknown fields are errors. */
export function resourceJsonSchema(kind: ResourceKind): JsonSchema {
  const { about, names, scope }: KindDeclaration<never> = KINDS[kind];
  const spec = closed(specSchema(kind));
  const text = { type: 'string' } as const;
  const texts = { type: 'object', additionalProperties: text } as const;
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: kind,
    description: about,
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', ...((spec.required ?? []).length > 0 ? ['spec'] : [])],
    properties: {
      apiVersion: { const: API_VERSION },
      kind: { const: kind },
      metadata: {
        type: 'object',
        required: ['name'],
        properties: {
          name: names === undefined ? text : { ...text, pattern: namePattern(names) },
          ...(scope === 'namespace' ? { namespace: text } : {}),
          labels: texts,
          annotations: texts,
        },
      },
      spec,
      status: {},
    },
    additionalProperties: false,
  };
}

/** Returns the schema of a resource of any kind. */
export function anyResourceJsonSchema(): JsonSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'netplug resource',
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata'],
    properties: { apiVersion: { const: API_VERSION }, kind: { enum: [...KIND_NAMES] } },
    oneOf: KIND_NAMES.map((kind) => {
      const { $schema: _, ...schema } = resourceJsonSchema(kind);
      return schema;
    }),
  };
}

/** Adds descriptions and formats, which the conversion drops after the first transformation. */
function withDescriptions(schema: Schema, json: JsonSchema): JsonSchema {
  const shape = shapeOf(schema);
  const { properties = {}, items } = json;
  const said = { ...json, ...formatOf(schema), ...descriptionIn(schema) };
  if (shape.kind === 'object') {
    const within = mapProperties(properties, (part, key) => {
      const field = ownValue(shape.entries, key);
      return field === undefined ? part : withDescriptions(field, part);
    });
    return { ...said, ...(Object.keys(within).length === 0 ? {} : { properties: within }) };
  }
  if (shape.kind === 'value' || typeof items !== 'object' || Array.isArray(items)) return said;
  return { ...said, items: withDescriptions(shape.item, items) };
}

function descriptionIn(schema: Schema): { readonly description?: string } {
  const description = descriptionOf(schema);
  return description === undefined ? {} : { description };
}

function formatOf(schema: Schema): { readonly format?: string } {
  // The type of the metadata is lost here: each declaration has its own.
  const { format }: Readonly<Record<string, unknown>> = v.getMetadata(unwrapped(schema));
  return typeof format === 'string' ? { format } : {};
}

/** Disallows undeclared fields at any depth. */
function closed(json: JsonSchema): JsonSchema {
  const { properties, items } = json;
  return {
    ...json,
    ...(properties === undefined ? {} : { properties: mapProperties(properties, closed), additionalProperties: false }),
    ...(typeof items === 'object' && !Array.isArray(items) ? { items: closed(items) } : {}),
  };
}

function mapProperties(
  properties: NonNullable<JsonSchema['properties']>,
  change: (part: JsonSchema, key: string) => JsonSchema,
): NonNullable<JsonSchema['properties']> {
  return Object.fromEntries(
    Object.entries(properties).map(([key, part]) => [key, typeof part === 'boolean' ? part : change(part, key)]),
  );
}
