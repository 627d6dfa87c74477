import { adviceOnWord, oddityAt } from './json-oddities.ts';

/** The first syntax error of a text, and its correction. */
export interface JsonSlip {
  readonly offset: number;
  readonly advice: string;
}

/** Returns the first syntax error; undefined when the text is JSON. */
export function findJsonSlip(text: string): JsonSlip | undefined {
  if (YAML_START.test(text)) return { offset: 0, advice: 'this is YAML; write JSON, such as {"name": "pods"}' };
  try {
    new Reader(text).readAll();
    return undefined;
  } catch (cause) {
    if (cause instanceof Slip) return cause;
    throw cause;
  }
}

const YAML_START = /^(?:\s*#.*\n|\s*\n)*(?:---\s|[A-Za-z_][\w.-]*\s*:(?:\s|$))/;
const CLOSING = { '{': '}', '[': ']' } as const;
const SPACE = /[ \t\r\n]*/y;
const SCALAR = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y;
// oxlint-disable-next-line no-control-regex -- JSON allows all others in strings
const PLAIN_TEXT = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
/** The deepest nesting accepted: more than any configuration needs, and safe for the stack. */
const DEEPEST = 500;

class Slip extends Error implements JsonSlip {
  readonly offset: number;
  readonly advice: string;

  constructor(offset: number, advice: string) {
    super(advice);
    this.offset = offset;
    this.advice = advice;
  }
}

class Reader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readAll(): void {
    this.#value();
    const sign = this.#look();
    if (sign === undefined) return;
    const isClosing = sign === '}' || sign === ']';
    throw this.#slip(isClosing ? `remove "${sign}"; every bracket is closed already` : 'keep one object in the file');
  }

  #value(): void {
    const sign = this.#look();
    if (sign === '{') this.#members(sign, () => this.#member());
    else if (sign === '[') this.#members(sign, () => this.#value());
    else if (sign === '"') this.#string();
    else if (this.#take(SCALAR) === '') throw this.#slip(adviceOnWord(this.#text, this.#at, 'value'));
  }

  #member(): void {
    if (this.#look() === '"') this.#string();
    else throw this.#slip(adviceOnWord(this.#text, this.#at, 'key'));
    const sign = this.#look();
    if (sign !== ':') throw this.#slip(sign === '=' ? 'write ":" instead of "="' : 'put ":" before it');
    this.#at += 1;
    this.#value();
  }

  #members(opening: keyof typeof CLOSING, readOne: () => void): void {
    const start = this.#at;
    const closing = CLOSING[opening];
    this.#depth += 1;
    if (this.#depth > DEEPEST)
      throw this.#slip('the nesting is deeper than in any configuration; remove some brackets');
    this.#at += 1;
    for (let comma: number | undefined, isFirst = true; ; isFirst = false) {
      const sign = this.#look(start);
      if (sign === closing && comma !== undefined) throw new Slip(comma, 'remove the comma; nothing follows it');
      if (sign === closing) break;
      if (sign === ',') throw this.#slip('remove the comma; nothing precedes it');
      if (!isFirst && comma === undefined) throw this.#slip(betweenMembers(sign, opening));
      readOne();
      comma = this.#look(start) === ',' ? this.#at : undefined;
      if (comma !== undefined) this.#at += 1;
    }
    this.#at += 1;
    this.#depth -= 1;
  }

  #string(): void {
    this.#at += 1;
    for (;;) {
      this.#take(PLAIN_TEXT);
      if (this.#text[this.#at] === '"') break;
      if (this.#text[this.#at] !== '\\') throw this.#slip('close the quotes before the end of the line');
      if (this.#take(ESCAPE) === '') throw this.#slip('write "\\\\" for a backslash');
    }
    this.#at += 1;
  }

  /** Returns the next character after white space. `open` is the position of the bracket that the end would leave open. */
  #look(open?: number): string | undefined {
    this.#take(SPACE);
    const sign = this.#text[this.#at];
    if (sign === undefined && open !== undefined) throw new Slip(open, `"${this.#text[open] ?? ''}" is never closed`);
    const advice = oddityAt(this.#text, this.#at);
    if (advice !== undefined) throw this.#slip(advice);
    return sign;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const taken = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += taken.length;
    return taken;
  }

  #slip(advice: string): Slip {
    return new Slip(this.#at, advice);
  }
}

function betweenMembers(sign: string | undefined, opening: keyof typeof CLOSING): string {
  if (sign === ';') return 'write "," instead of ";"';
  return sign === '}' || sign === ']'
    ? `write "${CLOSING[opening]}" before it, to close "${opening}"`
    : 'put a comma before it';
}
