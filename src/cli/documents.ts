import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseAllDocuments } from 'yaml';
import type { ErrorCode } from '../base/errors.ts';
import type { Problem } from '../base/problem.ts';

/** A text somebody wrote, and what to call it when something in it is wrong. */
export interface Source {
  readonly name: string;
  readonly text: string;
}

/** One document of a source, with a way back from a path such as `spec.cidr` to the line. */
export interface ReadDocument {
  readonly value: unknown;
  /** `file:line:column` of what the path names, or of the nearest thing around it. */
  readonly placeOf: (path: string) => string;
}

export interface PlacedProblem extends Problem {
  readonly place: string;
}

/** Reads YAML or JSON, all documents of it; what cannot be read becomes a problem of code `code`. */
export function readDocuments(
  { name, text }: Source,
  code: ErrorCode,
): { documents: readonly ReadDocument[]; problems: readonly PlacedProblem[] } {
  const lines = new LineCounter();
  const documents: ReadDocument[] = [];
  const problems: PlacedProblem[] = [];
  for (const parsed of documentsIn(text, lines)) {
    for (const { pos, message } of parsed.errors) {
      const place = placeAt(name, lines, pos[0]);
      problems.push({ path: '', message: `is not valid YAML: ${firstLine(message)}`, code, place });
    }
    if (parsed.errors.length > 0) continue;
    const placeOf = (path: string): string => placeAt(name, lines, offsetOf(parsed, keysOf(path)));
    try {
      // The library types what YAML holds as `any`; we know nothing about it.
      const value = parsed.toJS() as unknown;
      if (value !== null && value !== undefined) documents.push({ value, placeOf });
    } catch (cause) {
      // Aliases that multiply without end are refused by the library, as are aliases of nothing.
      if (!(cause instanceof ReferenceError)) throw cause;
      problems.push({ path: '', message: `is not usable YAML: ${cause.message}`, code, place: placeOf('') });
    }
  }
  return { documents, problems };
}

/** The keys a path was made of: `a.b[0]["c/d"]` is a, b, 0 and c/d. */
export function keysOf(path: string): (string | number)[] {
  return [...path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)].map(([, index, quoted, word]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? (word ?? '') : String(JSON.parse(quoted));
  });
}

function documentsIn(text: string, lineCounter: LineCounter): Document[] {
  const bare = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const parsed = parseAllDocuments(bare, { lineCounter, prettyErrors: false });
  return [...parsed];
}

function placeAt(name: string, lines: LineCounter, offset: number): string {
  const { line, col } = lines.linePos(offset);
  return `${name}:${String(Math.max(1, line))}:${String(Math.max(1, col))}`;
}

/** Where the key of the last step stands, or the item of a list; as far down as the document goes. */
function offsetOf({ contents }: Document, keys: readonly (string | number)[]): number {
  let node: Node | null = contents;
  let offset = contents?.range?.[0] ?? 0;
  for (const key of keys) {
    if (isMap(node)) {
      const pair = node.items.find(
        (item) => isPair(item) && isScalar(item.key) && String(item.key.value) === String(key),
      );
      if (pair === undefined) return offset;
      offset = rangeOf(pair.key) ?? offset;
      node = asNode(pair.value);
    } else if (isSeq(node) && typeof key === 'number') {
      node = asNode(node.items[key]);
      offset = rangeOf(node) ?? offset;
    } else {
      return offset;
    }
  }
  return offset;
}

function asNode(value: unknown): Node | null {
  return isMap(value) || isSeq(value) || isScalar(value) ? value : null;
}

function rangeOf(value: unknown): number | undefined {
  return asNode(value)?.range?.[0];
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? text;
}
