import type { ErrorCode } from './error-codes.ts';
import { NetplugError } from './errors.ts';

/** One thing that is wrong with what somebody wrote, and where. */
export interface Problem {
  /** Such as `ipam.ranges[0][1].subnet`; empty for the document as a whole. */
  readonly path: string;
  readonly message: string;
  readonly hint?: string;
  readonly code: ErrorCode;
  readonly fix?: Fix;
}

/** Something that works but should be changed: one sentence, which names what it is about. */
export interface Warning {
  readonly path: string;
  readonly message: string;
  readonly fix?: Fix;
}

/** Changes of the text that only leave one reading, made together or not at all. */
export type Fix = readonly Edit[];

/** One change at a path: another name for the key, another value, or neither of them any more. */
export type Edit =
  | { readonly kind: 'rename'; readonly path: string; readonly to: string }
  | { readonly kind: 'set'; readonly path: string; readonly value: string | number | boolean }
  | { readonly kind: 'remove'; readonly path: string };

/** Problems and remarks while a document is being read. */
export interface Findings {
  readonly problems: Problem[];
  readonly warnings: Warning[];
}

/** At most this many problems are spelled out in one error. */
const SHOWN_PROBLEMS = 20;

export function emptyFindings(): Findings {
  return { problems: [], warnings: [] };
}

/** `at('ipam', 'ranges', 0, 1)` is `ipam.ranges[0][1]`; an empty first part means the document itself. */
export function at(start: string, ...keys: readonly (string | number)[]): string {
  let path = start;
  for (const key of keys) {
    if (typeof key === 'number') path += `[${String(key)}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(key)) path += `[${JSON.stringify(key)}]`;
    else path += path === '' ? key : `.${key}`;
  }
  return path;
}

/** The keys a path was made of: `a.b[0]["c/d"]` is a, b, 0 and c/d. */
export function keysOf(path: string): (string | number)[] {
  return [...path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[\]]+)/g)].map(([, index, quoted, word]) => {
    if (index !== undefined) return Number(index);
    return quoted === undefined ? (word ?? '') : String(JSON.parse(quoted));
  });
}

/** The path of something at `path` inside what stands at `start`. */
export function joinPaths(start: string, path: string): string {
  return start === '' || path === '' || path.startsWith('[') ? `${start}${path}` : `${start}.${path}`;
}

/** The text without what stands before the host in a URL. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/:\/\/[^/\s"]*@/g, '://…@');
}

/** Shows a value and its JSON type, as in `found true (boolean)`. Passwords inside URLs are left out. */
export function showFound(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  const text = withoutPasswords(JSON.stringify(value));
  const short = text.length > 80 ? `${text.slice(0, 79)}…` : text;
  return `${short} (${Array.isArray(value) ? 'array' : typeof value})`;
}

/** Ordered by path, numbers in paths as numbers; the same thing is said once. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const byText = new Map(problems.map((problem) => [`${problem.path}\n${problem.message}`, problem]));
  return [...byText.values()].sort((a, b) => compareText(`${a.path}\n${a.message}`, `${b.path}\n${b.message}`));
}

/** One line: path, message, hint. */
export function problemLine({ path, message, hint }: Problem): string {
  return `${path === '' ? '' : `${path}: `}${message}${hint === undefined ? '' : ` (${hint})`}`;
}

/**
 * The error that reports all problems, each on its own line. Its code is that of the problems when they agree, and
 * `mixed` otherwise.
 */
export function problemsError(what: string, problems: readonly Problem[], mixed: ErrorCode): NetplugError {
  const sorted = sortProblems(problems);
  const [first] = sorted;
  const code = first !== undefined && sorted.every((problem) => problem.code === first.code) ? first.code : mixed;
  const lines = sorted.slice(0, SHOWN_PROBLEMS).map((problem) => `\n  ${problemLine(problem)}`);
  if (sorted.length > SHOWN_PROBLEMS) lines.push(`\n  and ${String(sorted.length - SHOWN_PROBLEMS)} more`);
  const count = sorted.length === 1 ? '1 problem' : `${String(sorted.length)} problems`;
  return new NetplugError(code, `Cannot use ${what}: ${count}${lines.join('')}`, {
    hint: 'Correct the values at the paths named',
    facts: { paths: sorted.map(({ path }) => path) },
  });
}

function compareText(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
