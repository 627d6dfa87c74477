import type { ErrorCode } from './error-codes.ts';
import { NetplugError } from './errors.ts';

/** One problem in a document, with its path. */
export interface Problem {
  /** Example: `ipam.ranges[0][1].subnet`; empty for the document as a whole. */
  readonly path: string;
  readonly message: string;
  readonly hint?: string;
  readonly code: ErrorCode;
  readonly fix?: Fix;
}

/** Something that works but should be changed. The message is one sentence that names its subject. */
export interface Warning {
  readonly path: string;
  readonly message: string;
  readonly fix?: Fix;
}

/** Unambiguous edits of a document, made all together or not at all. */
export type Fix = readonly Edit[];

/** One edit at a path: renames the key, sets the value, or removes both. */
export type Edit =
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  | { readonly kind: 'set'; readonly path: string; readonly value: string | number | boolean }
  | { readonly kind: 'remove'; readonly path: string };

/** The problems and warnings collected while a document is read. */
export interface Findings {
  readonly problems: Problem[];
  readonly warnings: Warning[];
}

/** The most problems that one error lists. */
const SHOWN_PROBLEMS = 20;

export function emptyFindings(): Findings {
  return { problems: [], warnings: [] };
}

/** Returns a path: `at('ipam', 'ranges', 0, 1)` is `ipam.ranges[0][1]`. An empty first part is the document itself. */
export function at(start: string, ...keys: readonly (string | number)[]): string {
  let path = start;
  for (const key of keys) {
    if (typeof key === 'number') path += `[${String(key)}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(key)) path += `[${JSON.stringify(key)}]`;
    else path += path === '' ? key : `.${key}`;
  }
  return path;
}

/** Returns the keys of a path: `a.b[0]["c/d"]` is a, b, 0 and c/d. */
export function keysOf(path: string): (string | number)[] {
  return [...path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)].map(([, index, quoted, word]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? (word ?? '') : String(JSON.parse(quoted));
  });
}

/** Returns the path of the value at `path` inside the value at `start`. */
export function joinPaths(start: string, path: string): string {
  return start === '' || path === '' || path.startsWith('[') ? `${start}${path}` : `${start}.${path}`;
}

/** Returns the text with user and password removed from URLs. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/:\/\/[^/\s"]*@/g, '://…@');
}

/** Returns a value and its JSON type, such as `true (boolean)`. Passwords inside URLs are left out. */
export function showFound(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  const text = withoutPasswords(JSON.stringify(value));
  const short = text.length > 80 ? `${text.slice(0, 79)}…` : text;
  return `${short} (${Array.isArray(value) ? 'array' : typeof value})`;
}

/** Returns the message of a value that is not allowed. */
export function foundNotAllowed(found: unknown, allowed: string): string {
  return `found ${showFound(found)}, allowed is ${allowed}`;
}

/** Returns the message of a value that is needed, and is missing or not allowed. */
export function missingOrNotAllowed(found: unknown, needed: string): string {
  return found === undefined ? `missing; needed is ${needed}` : foundNotAllowed(found, needed);
}

/** Returns the problems ordered by path, with numeric order inside paths, without duplicates. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const byText = new Map(problems.map((problem) => [`${problem.path}\n${problem.message}`, problem]));
  return [...byText.values()].sort((a, b) => compareText(`${a.path}\n${a.message}`, `${b.path}\n${b.message}`));
}

/** Returns path, message and hint as one line. */
export function problemLine({ path, message, hint }: Problem): string {
  return `${path === '' ? '' : `${path}: `}${message}${hint === undefined ? '' : ` (${hint})`}`;
}

/**
 * Returns the error that reports all problems, each on its own line. Its code is that of the problems when all have the
 * same code, otherwise `mixed`.
 */
export function problemsError(what: string, problems: readonly Problem[], mixed: ErrorCode): NetplugError {
  const sorted = sortProblems(problems);
  const [first] = sorted;
  const code = first !== undefined && sorted.every((problem) => problem.code === first.code) ? first.code : mixed;
  const lines = sorted.slice(0, SHOWN_PROBLEMS).map((problem) => `\n  ${problemLine(problem)}`);
  if (sorted.length > SHOWN_PROBLEMS) lines.push(`\n  and ${String(sorted.length - SHOWN_PROBLEMS)} more`);
  const count = sorted.length === 1 ? '1 problem' : `${String(sorted.length)} problems`;
  return new NetplugError(code, `Cannot use ${what}: ${count}${lines.join('')}`, {
    hint: 'Correct the values at these paths',
    facts: { paths: sorted.map(({ path }) => path) },
  });
}

function compareText(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
