import * as v from 'valibot';
import { ownValue } from '../base/own-value.ts';
import type { ErrorCode } from '../base/error-codes.ts';
import { didYouMean, nearMiss, sameLetters } from '../base/near-miss.ts';
import { at, type Edit, type Findings, type Fix, missingOrNotAllowed, type Problem } from '../base/problem.ts';
import { misplacedLists } from './misplaced-lists.ts';

/** The message of every check in netplug's schemas completes "allowed is …"; `problemsOf` writes the whole sentence. */
type Entries = v.ObjectEntries;
type Output<E extends Entries> = v.InferOutput<v.ObjectSchema<E, undefined>>;
export type PartialOutput<E extends Entries> = { readonly [K in keyof E]?: v.InferOutput<E[K]> };

export interface Place {
  readonly path: string;
  readonly code: ErrorCode;
}

/** The decoded entries: `values` has every valid one; `complete` has all of them, or is undefined when one is invalid. */
export interface Reading<E extends Entries> {
  readonly values: PartialOutput<E>;
  readonly complete: Output<E> | undefined;
}

/** Decodes each entry separately, so that an invalid one does not hide the others from checks of constraints between them. */
export function readEntries<const E extends Entries>(
  entries: E,
  raw: Readonly<Record<string, unknown>>,
  { path, code, problems }: Place & Pick<Findings, 'problems'>,
): Reading<E> {
  const values: [string, unknown][] = [];
  let isComplete = true;
  for (const [key, schema] of Object.entries(entries)) {
    const value = ownValue(raw, key);
    const result = v.safeParse(schema, value);
    const lists = result.success ? misplacedLists(schema, value, { path: at(path, key), code }) : [];
    if (lists.length > 0) {
      isComplete = false;
      problems.push(...lists);
    } else if (result.success) {
      if (result.output !== undefined) values.push([key, result.output]);
    } else {
      isComplete = false;
      problems.push(...problemsOf(result.issues, { path: at(path, key), code }));
    }
  }
  // Each key was read by its own schema just above; the compiler does not follow a loop over keys.
  const read = Object.fromEntries(values) as Output<E>;
  return { values: read, complete: isComplete ? read : undefined };
}

/** Converts issues of the schema library to problems. */
export function problemsOf(issues: readonly v.BaseIssue<unknown>[], { path, code }: Place): Problem[] {
  return issues.map((issue) => {
    const keys = (issue.path ?? []).map(({ key }) => (typeof key === 'number' ? key : String(key)));
    // For an absent key of an object the library has only the message of the object.
    const isAbsentKey = issue.kind === 'schema' && issue.expected === `"${String(keys.at(-1))}"`;
    const message =
      isAbsentKey && issue.input === undefined
        ? 'missing, but required'
        : missingOrNotAllowed(issue.input, issue.message);
    const place = at(path, ...keys);
    return { path: place, message, code, ...adviceFor(issue, place) };
  });
}

/** Suggests a fix for missing or extra quotes and for typing errors in a word of a closed list. */
function adviceFor({ input, expected, kind }: v.BaseIssue<unknown>, path: string): Pick<Problem, 'hint' | 'fix'> {
  if (kind !== 'schema' || expected === null) return {};
  const set = (value: Extract<Edit, { kind: 'set' }>['value']): Fix => [{ kind: 'set', path, value }];
  const options = [...expected.matchAll(/"([^"]*)"/g)]
    .map(([, option]) => option ?? '')
    .filter((option) => option !== '');
  if (typeof input === 'boolean' && options.includes(String(input))) {
    return { hint: `write "${String(input)}" in quotes`, fix: set(String(input)) };
  }
  if (typeof input !== 'string') return {};
  if (expected === 'number' && /^\d+$/.test(input)) {
    return { hint: `write ${input} without quotes`, fix: set(Number(input)) };
  }
  if (expected === 'boolean' && (input === 'true' || input === 'false')) {
    return { hint: `write ${input} without quotes`, fix: set(input === 'true') };
  }
  const meant = nearMiss(input, options);
  if (meant === undefined) return {};
  return { hint: didYouMean(meant), ...(sameLetters(input, options) === undefined ? {} : { fix: set(meant) }) };
}

/** Says where an issue of the schema library is and what it is, for messages without a `Problem`. */
export function issueText(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue);
  return path === null ? issue.message : `${path}: ${issue.message}`;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
