import { isDeepStrictEqual } from 'node:util';
import { type ConversionConfig, type JsonSchema, toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import type { KindDeclaration } from '../../model/kind-info.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from '../../model/kinds.ts';

/** A structural schema: the part of OpenAPI v3 that the API keeps custom resources by. */
export type StructuralSchema = Readonly<Record<string, unknown>>;
/** Kinds that are custom resources; nodes are the orchestrator's own. */
export type CustomKind = Exclude<ResourceKind, 'Node'>;
export const CUSTOM_KINDS = KIND_NAMES.filter((kind): kind is CustomKind => kind !== 'Node').sort();

/** What a newer release wrote survives the older one. */
const KEEPS_UNKNOWN = { 'x-kubernetes-preserve-unknown-fields': true } as const;

/** The schema of one kind, from the declarations that netplug itself reads resources by. */
export function resourceSchema(kind: CustomKind): StructuralSchema {
  const { fields, names, schemaRules = {} }: KindDeclaration<never> = KINDS[kind];
  const spec = structural(toJsonSchema(v.looseObject(fields), CONVERSION));
  const { spec: specRules = {}, properties: rules = {} } = schemaRules;
  const properties = Object.fromEntries(
    Object.entries(spec.properties).map(([field, schema]) => [
      field,
      { ...schema, ...saidOf(fields[field]), ...rules[field] },
    ]),
  );
  const needsSpec = (spec.required ?? []).length > 0;
  return {
    type: 'object',
    ...(needsSpec ? { required: ['spec'] } : {}),
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: names === undefined ? { type: 'object' } : namesSchema(names),
      spec: { ...spec, properties, ...specRules, ...KEEPS_UNKNOWN },
    },
  };
}

/** Blocks are read by a decoder that never trusts them: the schema is for people, and against slips. */
export function blockSchema(): StructuralSchema {
  const text = { type: 'string' };
  const allocation = {
    type: 'object',
    required: ['id', 'handle', 'node', 'network', 'containerId', 'ifName', 'at', 'chosenBy'],
    properties: {
      ...Object.fromEntries(['id', 'handle', 'node'].map((field) => [field, { ...text, minLength: 1 }] as const)),
      ...Object.fromEntries(
        ['network', 'containerId', 'ifName', 'namespace', 'pod', 'podUid', 'at', 'chosenBy'].map((field) => [
          field,
          text,
        ]),
      ),
    },
    ...KEEPS_UNKNOWN,
  };
  return {
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: text,
      kind: text,
      metadata: { type: 'object' },
      spec: {
        type: 'object',
        required: ['format', 'cidr', 'slots', 'free'],
        properties: {
          format: { type: 'integer', description: 'Form of the record.' },
          cidr: { ...text, format: 'cidr', description: 'Range of the block.' },
          node: { ...text, minLength: 1, description: 'Node that owns the block.' },
          slots: {
            type: 'object',
            additionalProperties: allocation,
            description: 'Who holds each address, by its place in the block.',
          },
          stock: {
            type: 'object',
            additionalProperties: { ...text, minLength: 1 },
            description: 'Places that the agent of the node has set aside for the next pods.',
          },
          wanted: {
            type: 'array',
            items: { type: 'integer' },
            description: 'Places in stock that another node needs.',
          },
          free: {
            ...text,
            // Otherwise API servers of Kubernetes 1.20 that were built with a newer Go take the empty text for null.
            nullable: true,
            description: 'Places that are free, next to be handed out first.',
          },
        },
        ...KEEPS_UNKNOWN,
        // Written whole: otherwise the API notes in the metadata who wrote which field of which slot, and tells it to
        // every watcher of metadata.
        'x-kubernetes-map-type': 'atomic',
      },
    },
  };
}

/** Checks in code have no form in a schema; netplug makes them when it reads. */
const CONVERSION: ConversionConfig = { typeMode: 'input', errorMode: 'ignore' };

/** The conversion stops at the first transformation and misses what is said after it. */
function saidOf(field: v.ObjectEntries[string] | undefined): StructuralSchema {
  // A field that may be left out may say it inside.
  if (field !== undefined && 'wrapped' in field) return saidOf(field['wrapped']);
  if (field === undefined || !('pipe' in field)) return {};
  // Metadata is whatever a declaration says; the compiler knows none of it here.
  const { format }: Readonly<Record<string, unknown>> = v.getMetadata(field);
  const description = v.getDescription(field);
  return {
    ...(description === undefined ? {} : { description }),
    ...(typeof format === 'string' ? { format } : {}),
  };
}

interface SpecSchema extends StructuralSchema {
  readonly properties: Readonly<Record<string, StructuralSchema>>;
  readonly required?: readonly string[];
}

/** Leaves out what the API does not take in a schema, all the way down. */
function structural({ properties = {}, required = [] }: JsonSchema): SpecSchema {
  const clean = (part: unknown): unknown => {
    if (typeof part !== 'object' || part === null) return part;
    if (Array.isArray(part)) return part.map(clean);
    const entries = Object.entries(part).filter(
      // An empty list is one that the API drops, and then everything seems changed.
      ([key, value]) => key !== 'additionalProperties' && !(key === 'required' && isDeepStrictEqual(value, [])),
    );
    const isObject = entries.some(([key, value]) => key === 'type' && value === 'object');
    return {
      ...Object.fromEntries(entries.map(([key, value]) => [key, clean(value)])),
      ...(isObject ? KEEPS_UNKNOWN : {}),
    };
  };
  // An object in, an object out; the compiler does not follow the recursion.
  const cleaned = clean(properties) as Record<string, StructuralSchema>;
  return { type: 'object', properties: cleaned, ...(required.length === 0 ? {} : { required }) };
}

function namesSchema(names: NonNullable<KindDeclaration<never>['names']>): StructuralSchema {
  const pattern = names === 'default' ? '^default$' : String.raw`^(default|node\..+)$`;
  return { type: 'object', properties: { name: { type: 'string', pattern } } };
}
