import { type Document, LineCounter, parseAllDocuments } from 'yaml';
import type { ErrorCode } from '../../base/error-codes.ts';
import { keysOf, type Problem, problemsError } from '../../base/problem.ts';
import {
  collectionKeys,
  rangeOfSpot,
  type Region,
  regionOf,
  repeatedKeys,
  type Spot,
  spotFinder,
} from './document-tree.ts';

/** A text to parse, and its name for error messages. */
export interface DocumentSource {
  readonly name: string;
  readonly text: string;
}

/** One document of a source. Maps a path such as `spec.cidr` back to its line. */
export interface ReadDocument {
  readonly value: unknown;
  /** Returns what the path leads to, or its nearest existing ancestor. */
  readonly spotOf: (path: string) => Spot;
  readonly regionOf: (path: string) => Region;
  /** Keys that are repeated later in the same object. */
  readonly repetitions: readonly { readonly key: string; readonly region: Region }[];
  /** Returns `file:line:column` of the path, or of its nearest existing ancestor. */
  readonly placeOf: (path: string) => string;
}

export interface PlacedProblem extends Problem {
  readonly place: string;
  readonly region?: Region;
}

/** Settings for parsing a text. JSON allows repeated keys, of which the last one counts. */
export interface DocumentReading {
  readonly code: ErrorCode;
  readonly repeatedKeys?: 'refuse' | 'last-counts';
}

/** Parses all documents of a YAML or JSON text. Parse errors become problems with code `code`. */
export function readDocuments(
  { name, text }: DocumentSource,
  how: ErrorCode | DocumentReading,
): { documents: readonly ReadDocument[]; problems: readonly PlacedProblem[] } {
  const { code, repeatedKeys: repetition = 'refuse' } = typeof how === 'string' ? { code: how } : how;
  const lines = new LineCounter();
  const documents: ReadDocument[] = [];
  const problems: PlacedProblem[] = [];
  const report = (message: string, region: Region): unknown =>
    problems.push({ path: '', message, code, place: placeAt(name, region), region });
  for (const parsed of documentsIn(text, lines, repetition)) {
    for (const { pos, message } of parsed.errors) {
      const [reason = message] = message.split('\n');
      report(`is not valid YAML: ${reason}`, regionOf(lines, pos));
    }
    const root = parsed.contents;
    const oddKeys = parsed.errors.length > 0 ? [] : collectionKeys(root);
    for (const range of oddKeys) {
      report('is not usable YAML: a list or an object stands where a key should be', regionOf(lines, range));
    }
    if (parsed.errors.length > 0 || oddKeys.length > 0) continue;
    const findSpot = spotFinder(root);
    const spotOf = (path: string): Spot => findSpot(keysOf(path));
    const regionOfPath = (path: string): Region => regionOf(lines, rangeOfSpot(spotOf(path)));
    const placeOf = (path: string): string => placeAt(name, regionOfPath(path));
    try {
      // The library returns `any`.
      const value = parsed.toJS() as unknown;
      if (value === null || value === undefined) continue;
      documents.push({
        value,
        spotOf,
        placeOf,
        regionOf: regionOfPath,
        repetitions: repeatedKeys(root).map(({ name: key, range }) => ({ key, region: regionOf(lines, range) })),
      });
    } catch (cause) {
      // The library refuses unresolved aliases, and aliases that expand beyond its limit.
      if (!(cause instanceof ReferenceError)) throw cause;
      report(`is not usable YAML: ${cause.message}`, regionOfPath(''));
    }
  }
  return { documents, problems };
}

/** Refuses a source with problems, each at its place. @throws the error of the code */
export function refuseProblems(
  problems: readonly PlacedProblem[],
  what: string,
  code: ErrorCode = 'resource/invalid',
): void {
  if (problems.length === 0) return;
  const placed = problems.map(({ place, path, ...rest }) => ({
    ...rest,
    path: path === '' ? place : `${place}: ${path}`,
  }));
  throw problemsError(what, placed, code);
}

export function placeAt(name: string, { line, column }: Pick<Region, 'line' | 'column'>): string {
  return `${name}:${String(line)}:${String(column)}`;
}

/** Removes a leading byte order mark. */
export function withoutByteOrderMark(text: string): string {
  return text.startsWith('\uFEFF') ? text.slice(1) : text;
}

function documentsIn(
  text: string,
  lineCounter: LineCounter,
  repeatedKeys: DocumentReading['repeatedKeys'],
): Document[] {
  const uniqueKeys = repeatedKeys === 'refuse';
  // At a lower level the library writes warnings to standard error.
  const options = { lineCounter, prettyErrors: false, uniqueKeys, logLevel: 'error' } as const;
  return [...parseAllDocuments(withoutByteOrderMark(text), options)];
}
