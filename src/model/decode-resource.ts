import { didYouMean, nearMiss } from '../base/near-miss.ts';
import {
  at,
  missingOrNotAllowed,
  foundNotAllowed,
  type Problem,
  problemLine,
  showFound,
  sortProblems,
} from '../base/problem.ts';
import { type AnyResource, KIND_NAMES } from './kinds.ts';
import { DROPPED_METADATA, METADATA_FIELDS } from './metadata.ts';
import { isRecord, readEntries } from './read-schema.ts';
import { DEFAULT_NAMESPACE } from './resource-id.ts';
import { API_VERSION, type Metadata } from './resource.ts';
import { findSpecReader, type SpecReader } from './spec-readers.ts';
import { unknownField, unknownFields } from './unknown-fields.ts';
import { given } from '../base/given.ts';

type Raw = Readonly<Record<string, unknown>>;
const CODE = 'resource/invalid';

/**
 * Decodes a resource that a user wrote: checks every rule, fills in every default and refuses unknown fields. A resource
 * of a namespaced kind without a namespace gets `namespace`.
 */
export function decodeResource(
  raw: unknown,
  { namespace = DEFAULT_NAMESPACE }: { readonly namespace?: string } = {},
): { resource: AnyResource } | { problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const resource = readWritten(raw, namespace, problems);
  if (resource !== undefined && problems.length === 0) return { resource };
  return { problems: sortProblems(problems) };
}

/**
 * Decodes a resource from the datastore: keeps fields of newer releases and fills in defaults. Returns the problems as
 * text when the record cannot be used.
 */
export function decodeStoredResource(raw: unknown): AnyResource | string {
  if (!isRecord(raw)) return foundNotAllowed(raw, 'an object');
  const problems: Problem[] = [];
  const reader = readKind(raw, problems);
  const name = isRecord(raw['metadata']) ? raw['metadata']['name'] : undefined;
  if (typeof name !== 'string' || name === '') problems.push({ path: 'metadata.name', message: 'missing', code: CODE });
  const rawSpec = raw['spec'] ?? {};
  if (!isRecord(rawSpec)) return `spec: found ${showFound(rawSpec)}, allowed is an object`;
  const spec = reader?.read(rawSpec, problems);
  if (spec === undefined || problems.length > 0) return sortProblems(problems).map(problemLine).join('; ');
  // The kind chose the reader of the spec; the compiler does not connect the two.
  return { ...raw, spec: { ...rawSpec, ...spec } } as unknown as AnyResource;
}

function readWritten(raw: unknown, namespace: string, problems: Problem[]): AnyResource | undefined {
  if (!isRecord(raw)) {
    problems.push({ path: '', message: foundNotAllowed(raw, 'an object'), code: CODE });
    return undefined;
  }
  const reader = readKind(raw, problems);
  refuseUnknown(raw, { known: ['apiVersion', 'kind', 'metadata', 'spec'], dropped: ['status'], path: '' }, problems);
  const metadata = readMetadata(raw['metadata'], { reader, namespace }, problems);
  const rawSpec = raw['spec'] ?? {};
  if (!isRecord(rawSpec)) {
    problems.push({ path: 'spec', message: foundNotAllowed(rawSpec, 'an object'), code: CODE });
    return undefined;
  }
  if (reader === undefined) return undefined;
  problems.push(...unknownFields(reader.entries, rawSpec, 'spec'));
  const spec = reader.read(rawSpec, problems);
  problems.push(...reader.check(rawSpec));
  if (spec === undefined || metadata === undefined) return undefined;
  // The kind chose the reader of the spec; the compiler does not connect the two.
  return { apiVersion: API_VERSION, kind: reader.kind, metadata, spec } as AnyResource;
}

function readKind(raw: Raw, problems: Problem[]): SpecReader | undefined {
  if (raw['apiVersion'] !== API_VERSION) problems.push(notOneOf('apiVersion', raw['apiVersion'], [API_VERSION]));
  const reader = findSpecReader(raw['kind']);
  if (reader === undefined) problems.push(notOneOf('kind', raw['kind'], KIND_NAMES));
  return reader;
}

function readMetadata(
  raw: unknown,
  { reader, namespace: otherwise }: { readonly reader: SpecReader | undefined; readonly namespace: string },
  problems: Problem[],
): Metadata | undefined {
  if (!isRecord(raw)) {
    problems.push({ path: 'metadata', message: missingOrNotAllowed(raw, 'an object with "name"'), code: CODE });
    return undefined;
  }
  if (reader !== undefined) checkNamespace(raw, reader, problems);
  if (Object.hasOwn(raw, 'generateName')) {
    problems.push({ path: 'metadata.generateName', message: 'is not supported', hint: 'give a name', code: CODE });
  }
  const known = [...Object.keys(METADATA_FIELDS), 'generateName'];
  refuseUnknown(raw, { known, dropped: DROPPED_METADATA, path: 'metadata' }, problems);
  const { complete } = readEntries(METADATA_FIELDS, raw, { path: 'metadata', code: CODE, problems });
  if (complete === undefined) return undefined;
  if (reader?.names !== undefined && !isNameOf(reader.names, complete.name)) {
    const allowed = reader.names === 'default' ? ['default'] : ['default', 'node.<name>'];
    problems.push(notOneOf('metadata.name', complete.name, allowed));
  }
  const { name, namespace = otherwise, labels, annotations, uid, creationTimestamp, resourceVersion } = complete;
  return {
    name,
    ...(reader?.scope === 'namespace' ? { namespace } : {}),
    ...given({ labels, annotations, uid, creationTimestamp: creationTimestamp ?? undefined, resourceVersion }),
  };
}

function checkNamespace(raw: Raw, { kind, scope }: SpecReader, problems: Problem[]): void {
  if (scope === 'namespace' || !Object.hasOwn(raw, 'namespace')) return;
  const message = `is not allowed: ${kind} belongs to the whole cluster`;
  problems.push({ path: 'metadata.namespace', message, code: CODE });
}

function isNameOf(names: NonNullable<SpecReader['names']>, name: string): boolean {
  return name === 'default' || (names === 'default-or-node' && /^node\../.test(name));
}

function refuseUnknown(
  raw: Raw,
  { known, dropped, path }: { known: readonly string[]; dropped: readonly string[]; path: string },
  problems: Problem[],
): void {
  for (const key of Object.keys(raw)) {
    if (known.includes(key) || dropped.includes(key)) continue;
    problems.push(unknownField(at(path, key), { key, known }));
  }
}

function notOneOf(path: string, found: unknown, allowed: readonly string[]): Problem {
  const meant = typeof found === 'string' ? nearMiss(found, allowed) : undefined;
  const hint = meant === undefined ? {} : { hint: didYouMean(meant) };
  const list = allowed.map((each) => `"${each}"`).join(', ');
  return { path, message: missingOrNotAllowed(found, list), code: CODE, ...hint };
}
