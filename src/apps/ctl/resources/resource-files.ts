import { NetplugError } from '../../../base/errors.ts';
import { at, joinPaths, type Problem } from '../../../base/problem.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import type { AnyResource } from '../../../model/kinds.ts';
import { isRecord } from '../../../model/read-schema.ts';
import {
  type PlacedProblem,
  type ReadDocument,
  readDocuments,
  refuseProblems,
  type DocumentSource,
} from '../documents.ts';

/** What the problems of resources are about. */
export const WRITES_NOTHING = 'the resources, and nothing was changed';

/** A resource from a file: as it is understood, and as it was written. */
export interface WrittenFile {
  readonly resource: AnyResource;
  readonly raw: unknown;
}

/**
 * Every resource in the sources, in their order. Lists and arrays are taken apart. One that is wrong refuses them all,
 * so that nothing is written by halves. `namespace` is where those go that name none. @throws resource/invalid, cli/usage when there is none
 */
export function readResources(
  sources: readonly DocumentSource[],
  namespace: string | undefined,
): readonly WrittenFile[] {
  const problems: PlacedProblem[] = [];
  const resources: WrittenFile[] = [];
  for (const source of sources) {
    const read = readDocuments(source, 'resource/invalid');
    problems.push(...read.problems);
    for (const document of read.documents) {
      const inspected = inspectDocument(document, namespace);
      problems.push(...inspected.problems);
      resources.push(...inspected.resources);
    }
  }
  refuseProblems(problems, WRITES_NOTHING);
  if (resources.length > 0) return resources;
  throw noDocument(sources);
}

/** Returns the error for sources without a document. */
export function noDocument(sources: readonly DocumentSource[]): NetplugError {
  const names = sources.map(({ name }) => `"${name}"`).join(', ');
  return new NetplugError('cli/usage', `Cannot find a resource in ${names}: there is no document`, {
    hint: 'Write YAML or JSON with apiVersion, kind, metadata and spec',
  });
}

/** The resources of one document, and what is wrong with them, each with its place. */
export function inspectDocument(
  { value, placeOf }: ReadDocument,
  namespace?: string,
): {
  readonly resources: readonly WrittenFile[];
  readonly problems: readonly PlacedProblem[];
} {
  const resources: WrittenFile[] = [];
  const problems: PlacedProblem[] = [];
  for (const { path: start, raw } of itemsOf(value)) {
    const decoded = decodeResource(raw, namespace === undefined ? {} : { namespace });
    if ('resource' in decoded) resources.push({ resource: decoded.resource, raw });
    else problems.push(...placedBehind(start, decoded.problems, placeOf));
  }
  return { resources, problems };
}

/** Returns the problems of a part of a document, with their paths from its root and their places. */
export function placedBehind(
  start: string,
  problems: readonly Problem[],
  placeOf: ReadDocument['placeOf'],
): readonly PlacedProblem[] {
  return problems.map((problem) => {
    const path = joinPaths(start, problem.path);
    return { ...problem, path, place: placeOf(path) };
  });
}

/** The parts of a list or an array, each with its path; anything else is its only part. */
export function itemsOf(value: unknown): readonly { readonly path: string; readonly raw: unknown }[] {
  if (Array.isArray(value)) return value.map((raw: unknown, index) => ({ path: at('', index), raw }));
  const kind = isRecord(value) ? value['kind'] : undefined;
  const items = isRecord(value) ? value['items'] : undefined;
  if (typeof kind !== 'string' || !kind.endsWith('List') || !Array.isArray(items)) return [{ path: '', raw: value }];
  return items.map((raw: unknown, index) => ({ path: at('items', index), raw }));
}
