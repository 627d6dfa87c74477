import { ownValue } from '../../../../base/own-value.ts';
import { type Operand, OPERATORS, type PathPart, type Path, type PathStep, type Template } from './json-path.ts';

/** Fault of a template, and the character where it is. */
export class JsonPathError extends Error {}

/**
 * Reads a template: text with paths in braces, `{range …}` to `{end}`, and quoted texts in braces. One without a brace is
 * the path itself. @throws JsonPathError
 */
export function parseTemplate(text: string): Template {
  if (!text.includes('{')) return [{ kind: 'path', path: parsePath(text) }];
  const cursor = new Cursor(text);
  const template = readParts(cursor, 'outside');
  if (!cursor.isAtEnd) throw cursor.error('this {end} ends no {range}');
  return template;
}

/** Reads one path, in braces or not; its first dot may be left out. @throws JsonPathError */
export function parsePath(text: string): Path {
  const bare = text.trim().replace(/^\{(.*)\}$/s, '$1');
  const cursor = new Cursor(bare);
  const path = readPath(cursor, 'relaxed');
  cursor.skipSpace();
  if (!cursor.isAtEnd) throw cursor.error('the path does not go on like this');
  return path;
}

/** Position of the reader in the text. */
class Cursor {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#text.length;
  }

  /** Goes past the word when it stands here. */
  take(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  insist(word: string): void {
    if (!this.take(word)) throw this.error(`"${word}" is missing`);
  }

  /** Returns the text that matches the pattern here, perhaps nothing, and goes past it. */
  read(pattern: RegExp): string | undefined {
    const sticky = new RegExp(pattern.source, 'sy');
    sticky.lastIndex = this.#at;
    const [found] = sticky.exec(this.#text) ?? [];
    this.#at += found?.length ?? 0;
    return found;
  }

  skipSpace(): void {
    this.read(/\s*/);
  }

  error(message: string): JsonPathError {
    return new JsonPathError(`${message}, at character ${String(this.#at + 1)}`);
  }
}

/** Stops behind the `{end}` of a range, else at the end of the text or before an `{end}` too many. */
function readParts(cursor: Cursor, where: 'outside' | 'in a range'): Template {
  const parts: PathPart[] = [];
  while (!cursor.isAtEnd) {
    const text = cursor.read(/[^{]+/);
    if (text !== undefined) {
      parts.push({ kind: 'text', text });
      continue;
    }
    if (cursor.read(/\{\s*end\s*\}/) !== undefined) {
      if (where === 'in a range') return parts;
      throw cursor.error('this {end} ends no {range}');
    }
    cursor.insist('{');
    cursor.skipSpace();
    parts.push(readHole(cursor));
  }
  if (where === 'in a range') throw cursor.error('{end} is missing');
  return parts;
}

function readHole(cursor: Cursor): PathPart {
  const isRange = cursor.read(/range\s+/) !== undefined;
  const text = isRange ? undefined : readQuoted(cursor);
  const path = text === undefined ? readPath(cursor, 'strict') : undefined;
  cursor.skipSpace();
  cursor.insist('}');
  if (path === undefined) return { kind: 'text', text: text ?? '' };
  return isRange ? { kind: 'range', path, body: readParts(cursor, 'in a range') } : { kind: 'path', path };
}

function readPath(cursor: Cursor, manner: 'strict' | 'relaxed'): Path {
  const from = cursor.take('$') ? 'root' : 'current';
  if (from === 'current') cursor.take('@');
  const steps: PathStep[] = [];
  if (manner === 'relaxed') {
    const name = readName(cursor);
    if (name !== undefined) steps.push({ kind: 'field', name });
  }
  for (;;) {
    if (cursor.take('..')) steps.push({ kind: 'descend' }, ...readAfterDot(cursor));
    else if (cursor.take('.')) steps.push(...readAfterDot(cursor));
    else if (cursor.take('[')) steps.push(readBracket(cursor));
    else return { from, steps };
  }
}

/** A lone dot is the thing itself. */
function readAfterDot(cursor: Cursor): PathStep[] {
  if (cursor.take('*')) return [{ kind: 'every' }];
  const name = readName(cursor);
  return name === undefined ? [] : [{ kind: 'field', name }];
}

/** A backslash takes the next character for what it is, as in `kubernetes\.io/hostname`. */
function readName(cursor: Cursor): string | undefined {
  return cursor.read(/(?:\\.|[^\s.[\](){}=!<>,'"*@$?:\\])+/)?.replaceAll(/\\(.)/gs, '$1');
}

function readBracket(cursor: Cursor): PathStep {
  cursor.skipSpace();
  const step = cursor.take('?(') ? readFilter(cursor) : readUnion(cursor);
  cursor.skipSpace();
  cursor.insist(']');
  return step;
}

function readUnion(cursor: Cursor): PathStep {
  const of: PathStep[] = [];
  do {
    cursor.skipSpace();
    of.push(readSelector(cursor));
    cursor.skipSpace();
  } while (cursor.take(','));
  const [only] = of;
  return of.length === 1 && only !== undefined ? only : { kind: 'union', of };
}

function readSelector(cursor: Cursor): PathStep {
  if (cursor.take('*')) return { kind: 'every' };
  const name = readQuoted(cursor);
  if (name !== undefined) return { kind: 'field', name };
  const from = readWhole(cursor);
  if (!cursor.take(':')) {
    if (from === undefined) throw cursor.error('allowed here is a number, "*", a quoted name or "?(…)"');
    return { kind: 'index', at: from };
  }
  const to = readWhole(cursor);
  const by = cursor.take(':') ? readWhole(cursor) : undefined;
  if (by !== undefined && by < 1) throw cursor.error('the step of a slice must be at least 1');
  return { kind: 'slice', from, to, by: by ?? 1 };
}

function readWhole(cursor: Cursor): number | undefined {
  const digits = cursor.read(/-?\d{1,9}/);
  return digits === undefined ? undefined : Number(digits);
}

function readFilter(cursor: Cursor): PathStep {
  const left = readOperand(cursor);
  cursor.skipSpace();
  const operator = OPERATORS.find((known) => cursor.take(known));
  const comparison = operator === undefined ? undefined : { operator, right: readOperand(cursor) };
  cursor.skipSpace();
  cursor.insist(')');
  return { kind: 'filter', left, comparison };
}

function readOperand(cursor: Cursor): Operand {
  cursor.skipSpace();
  const text = readQuoted(cursor);
  if (text !== undefined) return { kind: 'value', value: text };
  const word = cursor.read(/-?\d+(?:\.\d+)?|(?:true|false|null)\b/);
  // Numbers and these words are written as in JSON.
  if (word !== undefined) return { kind: 'value', value: JSON.parse(word) as number | boolean | null };
  const path = readPath(cursor, 'strict');
  if (path.steps.length === 0) throw cursor.error('allowed here is a path such as @.name, a number or a quoted text');
  return { kind: 'path', path };
}

/** In either quotes; `\n`, `\t` and the like are what they are elsewhere. */
function readQuoted(cursor: Cursor): string | undefined {
  const quoted = cursor.read(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/);
  return quoted?.slice(1, -1).replaceAll(/\\(.)/gs, (_, letter: string) => ownValue(ESCAPES, letter) ?? letter);
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };
