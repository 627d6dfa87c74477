import { type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { KIND_NAMES, KINDS, type ResourceKind } from './kinds.ts';
import type { KindDeclaration } from './kind-info.ts';
import { API_VERSION } from './resource.ts';
import { entriesOf, itemOf } from './schema-parts.ts';

// Only tools import this file: the library behind it is not for the per-pod path.

/** The names a kind can have, as a pattern. */
export function namePattern(names: NonNullable<KindDeclaration<never>['names']>): string {
  return names === 'default' ? '^default$' : String.raw`^(default|node\..+)$`;
}

/** The schema of a spec: types, closed lists, defaults and descriptions, to any depth. */
export function specSchema(kind: ResourceKind): JsonSchema {
  const { fields, schemaRules = {} }: KindDeclaration<never> = KINDS[kind];
  const schema = v.looseObject(fields);
  // Checks in code have no form in a schema; netplug makes them when it reads.
  const converted = withWords(schema, toJsonSchema(schema, { typeMode: 'input', errorMode: 'ignore' }));
  const properties = Object.fromEntries(
    Object.entries(converted.properties ?? {}).map(([field, part]) => [
      field,
      typeof part === 'boolean' ? part : { ...part, ...schemaRules.properties?.[field] },
    ]),
  );
  const { type = 'object', required = [] } = converted;
  return { type, properties, ...(required.length === 0 ? {} : { required }), ...schemaRules.spec };
}

/** The schema of one resource, for editors: what netplug does not know is marked. */
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

/** One schema for a file of any kind. */
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

/** The conversion stops at the first transformation and misses what is said after it. */
function withWords(schema: v.ObjectEntries[string], json: JsonSchema): JsonSchema {
  const entries = entriesOf(schema);
  const item = itemOf(schema);
  const { properties, items } = json;
  return {
    ...json,
    ...saidOf(schema),
    ...(entries === undefined || properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([key, part]) => {
              const field = entries[key];
              return [key, field === undefined || typeof part === 'boolean' ? part : withWords(field, part)];
            }),
          ),
        }),
    ...(item === undefined || typeof items !== 'object' || Array.isArray(items)
      ? {}
      : { items: withWords(item, items) }),
  };
}

function saidOf(field: v.ObjectEntries[string]): { readonly description?: string; readonly format?: string } {
  // A field that may be left out may say it inside.
  if ('wrapped' in field) return saidOf(field['wrapped']);
  if (!('pipe' in field)) return {};
  // Metadata is whatever a declaration says; the compiler knows none of it here.
  const { format }: Readonly<Record<string, unknown>> = v.getMetadata(field);
  const description = v.getDescription(field);
  return {
    ...(description === undefined ? {} : { description }),
    ...(typeof format === 'string' ? { format } : {}),
  };
}

/** Fields that a declaration does not name are wrong, at any depth. */
function closed(json: JsonSchema): JsonSchema {
  const { properties, items } = json;
  return {
    ...json,
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([key, part]) => [key, typeof part === 'boolean' ? part : closed(part)]),
          ),
          additionalProperties: false,
        }),
    ...(typeof items === 'object' && !Array.isArray(items) ? { items: closed(items) } : {}),
  };
}
