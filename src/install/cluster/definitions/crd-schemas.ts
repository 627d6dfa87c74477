import type { JsonSchema } from '@valibot/to-json-schema';
import type { KindDeclaration } from '../../../model/kind-info.ts';
import { KIND_NAMES, KINDS, type ResourceKind } from '../../../model/kinds.ts';
import { namePattern, specSchema, statusSchema } from '../../../model/resource-schema.ts';

/** A structural schema: the part of OpenAPI v3 that the API keeps custom resources by. */
export type StructuralSchema = Readonly<Record<string, unknown>>;
/** Kinds that are custom resources; nodes are the orchestrator's own. */
export type CustomKind = Exclude<ResourceKind, 'Node'>;
export const CUSTOM_KINDS = KIND_NAMES.filter((kind): kind is CustomKind => kind !== 'Node').sort();

/** Part of a schema by which what a newer release wrote survives the older one. */
const KEEPS_UNKNOWN = { 'x-kubernetes-preserve-unknown-fields': true } as const;

/** The schema of one kind, from the declarations that netplug itself reads resources by. */
export function resourceSchema(kind: ResourceKind): StructuralSchema {
  const { names }: KindDeclaration<never> = KINDS[kind];
  const { required = [], ...spec } = specSchema(kind);
  const status = statusSchema(kind);
  const name = names === undefined ? {} : { properties: { name: { type: 'string', pattern: namePattern(names) } } };
  return {
    type: 'object',
    ...(required.length > 0 ? { required: ['spec'] } : {}),
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object', ...name },
      spec: structural({ ...spec, ...(required.length > 0 ? { required } : {}) }),
      ...(status === undefined ? {} : { status: structural(status) }),
    },
  };
}

/** Schema of a block, for users and against mistakes. Readers validate blocks with a decoder of their own. */
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
  return recordSchema({
    required: ['format', 'cidr', 'slots', 'free'],
    properties: {
      format: { type: 'integer', description: 'Form of the record.' },
      cidr: { ...text, format: 'cidr', description: 'Range of the block.' },
      node: { ...text, minLength: 1, description: 'Node that owns the block.' },
      slots: {
        type: 'object',
        additionalProperties: allocation,
        description: 'Holder of each address, by ordinal.',
      },
      preallocated: {
        type: 'object',
        additionalProperties: { ...text, minLength: 1 },
        description: "Ordinals pre-allocated by the node's agent, with the id of each.",
      },
      requested: {
        type: 'array',
        items: { type: 'integer' },
        description: 'Pre-allocated ordinals that another node has requested.',
      },
      free: {
        ...text,
        description: 'Free ordinals, next to assign first.',
      },
      released: {
        type: 'object',
        additionalProperties: {
          type: 'object',
          required: ['at', 'holder'],
          properties: { at: { type: 'integer', format: 'int64' }, holder: text },
          ...KEEPS_UNKNOWN,
        },
        description: 'Free ordinals that may cool down: when they were released, in seconds since 1970, and by whom.',
      },
    },
  });
}

/** Schema of an endpoint, for users and against mistakes. Readers validate endpoints with a decoder of their own. */
export function endpointSchema(): StructuralSchema {
  const text = { type: 'string' };
  const named = { ...text, minLength: 1 };
  return recordSchema({
    required: ['name', 'namespace', 'orchestrator', 'node', 'network', 'containerID', 'endpoint', 'ipNetworks'],
    properties: {
      name: { ...named, description: 'Name of the endpoint among those of its node.' },
      namespace: { ...named, description: 'Namespace of the pod.' },
      labels: {
        type: 'object',
        additionalProperties: text,
        description: 'Labels of the pod, as they were known last.',
      },
      node: { ...named, description: 'Node that recorded the endpoint.' },
      pod: { ...named, description: 'Name of the pod.' },
      podUID: { ...named, description: 'UID of the pod, as the runtime gave it.' },
      ipNetworks: { type: 'array', items: text, description: 'Addresses of the pod, as CIDRs.' },
    },
  });
}

/** Returns the schema of a record of netplug with this `spec`, which may have further fields. */
function recordSchema(spec: { readonly required: readonly string[]; readonly properties: object }): StructuralSchema {
  return {
    type: 'object',
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      spec: {
        type: 'object',
        ...spec,
        ...KEEPS_UNKNOWN,
        // Written whole: otherwise the API server tracks the manager of every field of every slot in managedFields, and
        // sends that to every watch of metadata.
        'x-kubernetes-map-type': 'atomic',
      },
    },
  };
}

/** Replaces what the API server refuses in a schema with what it accepts, recursively. */
function structural(part: JsonSchema): StructuralSchema {
  const { properties, items, anyOf, required = [], additionalProperties, propertyNames: _, ...rest } = part;
  const entries = Object.entries(properties ?? {});
  return {
    ...rest,
    // An empty list is one that the API drops, and then everything seems changed.
    ...(required.length === 0 ? {} : { required }),
    ...(entries.length === 0
      ? {}
      : { properties: Object.fromEntries(entries.map(([key, inner]) => [key, structural(schemaOf(inner))])) }),
    ...(items === undefined || Array.isArray(items) ? {} : { items: structural(schemaOf(items)) }),
    ...(anyOf === undefined ? {} : { 'x-kubernetes-int-or-string': true }),
    ...(part.type !== 'object'
      ? {}
      : typeof additionalProperties === 'object' && additionalProperties.type !== undefined
        ? { additionalProperties: structural(additionalProperties) }
        : KEEPS_UNKNOWN),
  };
}

function schemaOf(part: JsonSchema | boolean): JsonSchema {
  return typeof part === 'boolean' ? {} : part;
}
