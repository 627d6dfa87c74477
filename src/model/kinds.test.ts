import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { decodeResource, decodeStoredResource } from './decode-resource.ts';
import { findKind, KIND_NAMES, KINDS } from './kinds.ts';
import { API_VERSION } from './resource.ts';
import { type Schema, shapeOf, descriptionOf } from './schema-shape.ts';

function example(kind: (typeof KIND_NAMES)[number]): object {
  return { apiVersion: API_VERSION, kind, ...KINDS[kind].example };
}

function problemsOf(raw: unknown): string[] {
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

/** Returns the paths of fields without a description. */
function undescribed(schema: Schema, path: string): string[] {
  const shape = shapeOf(schema);
  const own = descriptionOf(schema) === undefined ? [path] : [];
  if (shape.kind === 'array') return [...own, ...undescribedWithin(shape.item, `${path}[]`)];
  return [...own, ...undescribedWithin(schema, path)];
}

function undescribedWithin(schema: Schema, path: string): string[] {
  const shape = shapeOf(schema);
  if (shape.kind !== 'object') return [];
  return Object.entries(shape.entries).flatMap(([key, field]) => undescribed(field, `${path}.${key}`));
}

describe.each(KIND_NAMES)('%s', (kind) => {
  it('has a valid example that is unchanged when it is decoded again, from a file or from the datastore', () => {
    expect(problemsOf(example(kind))).toEqual([]);
    const decoded = decodeResource(example(kind));
    const resource = 'resource' in decoded ? decoded.resource : undefined;
    expect(decodeResource(resource)).toEqual({ resource });
    expect(decodeStoredResource(JSON.parse(JSON.stringify(resource)))).toEqual(resource);
  });

  it('describes every field', () => {
    const { fields } = KINDS[kind];
    expect(Object.entries(fields).flatMap(([key, field]) => undescribed(field, key))).toEqual([]);
  });

  it('refuses an unknown field, and a namespace on a cluster-scoped kind', () => {
    const { metadata, spec } = KINDS[kind].example;
    const [known = ''] = Object.keys(KINDS[kind].fields);
    const slip = `${known}x`;
    expect(problemsOf({ ...example(kind), spec: { ...spec, [slip]: 1 } })).toContain(
      `spec.${slip}: is not a known field (did you mean "${known}"?)`,
    );
    const elsewhere = problemsOf({ ...example(kind), metadata: { ...metadata, namespace: 'shop' } });
    expect(elsewhere.length).toBe(KINDS[kind].scope === 'cluster' ? 1 : 0);
  });

  it('is found by its names in any letter case', () => {
    const { plural, shortNames } = KINDS[kind];
    for (const word of [kind, plural, ...shortNames]) expect(findKind(word.toUpperCase())).toBe(kind);
  });
});

describe('names', () => {
  it.each([
    ['ControllersConfiguration', 'other', '"default"'],
    ['ClusterInformation', 'node.a', '"default"'],
    ['Installation', 'b', '"default"'],
    ['AgentConfiguration', 'node', '"default", "node.<name>"'],
    ['BGPConfiguration', 'nodes.a', '"default", "node.<name>"'],
  ])('of kind %s do not include %s', (kind, name, allowed) => {
    const [line] = problemsOf({ apiVersion: API_VERSION, kind, metadata: { name }, spec: {} });
    expect(line).toContain(`metadata.name: found "${name}" (string), allowed is ${allowed}`);
  });

  it('include those of single nodes for settings of nodes', () => {
    const raw = { apiVersion: API_VERSION, kind: 'AgentConfiguration', metadata: { name: 'node.a' }, spec: {} };
    expect(problemsOf(raw)).toEqual([]);
  });
});

describe('a namespace', () => {
  const set = (metadata: object): object => ({ apiVersion: API_VERSION, kind: 'NetworkSet', metadata, spec: {} });

  it('is the default one or the given one, unless the resource names its own', () => {
    const read = (metadata: object, namespace?: string): unknown =>
      decodeResource(set(metadata), namespace === undefined ? {} : { namespace });
    expect(read({ name: 'a' })).toMatchObject({ resource: { metadata: { name: 'a', namespace: 'default' } } });
    expect(read({ name: 'a' }, 'shop')).toMatchObject({ resource: { metadata: { namespace: 'shop' } } });
    expect(read({ name: 'a', namespace: 'b' }, 'shop')).toMatchObject({ resource: { metadata: { namespace: 'b' } } });
  });

  it.each(['Shop', 'a.b', '', 'a'.repeat(64), 7])('is not %j', (namespace) => {
    expect(problemsOf(set({ name: 'a', namespace }))[0]).toContain('metadata.namespace: found');
  });
});
