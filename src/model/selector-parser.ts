/** A parsed label selector. Groups have at least two parts, and nothing is negated twice. */
export type Selector =
  | { readonly kind: 'all' | 'global' }
  | { readonly kind: 'has'; readonly label: string }
  | { readonly kind: CompareOperator; readonly label: string; readonly value: string }
  | { readonly kind: 'in' | 'not in'; readonly label: string; readonly values: readonly string[] }
  | { readonly kind: 'not'; readonly of: Selector }
  | { readonly kind: 'and' | 'or'; readonly of: readonly Selector[] };

type CompareOperator = '==' | '!=' | 'contains' | 'starts with' | 'ends with';

/** A syntax error, with its position in characters from 0. */
export interface SelectorFault {
  readonly error: string;
  readonly at: number;
}

const LABEL = /[a-zA-Z0-9_./-]+/y;
const SPACE = /[ \t]*/y;
const LONGEST_LABEL = 512;
/** The deepest nesting accepted. Deeper selectors are mistakes and would exhaust the stack. */
const DEEPEST = 200;

/** Word operators are recognized only directly after a label, so that labels may be named `in`, `has` or `all`. */
const OPERATORS: readonly (readonly [RegExp, CompareOperator | 'in' | 'not in'])[] = [
  [/==/y, '=='],
  [/!=/y, '!='],
  [/contains/y, 'contains'],
  [/starts[ \t]*with/y, 'starts with'],
  [/ends[ \t]*with/y, 'ends with'],
  [/not[ \t]*in/y, 'not in'],
  [/in/y, 'in'],
];

/** Parses a selector; an empty text selects everything. Never throws. */
export function parseSelector(text: string): { readonly selector: Selector } | SelectorFault {
  try {
    return { selector: new Parser(text).parse() };
  } catch (cause) {
    if (cause instanceof Unexpected) return { error: cause.message, at: cause.at };
    throw cause;
  }
}

/** Negates a selector; removes a double negation. */
export function negate(selector: Selector): Selector {
  return selector.kind === 'not' ? selector.of : { kind: 'not', of: selector };
}

/** Carries a syntax error out of the recursion; never leaves this file. */
class Unexpected extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

class Parser {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  parse(): Selector {
    this.#take(SPACE);
    if (this.#at === this.#text.length) return { kind: 'all' };
    const selector = this.#group('or');
    if (this.#at < this.#text.length) throw this.#unexpected('"&&", "||" or the end');
    return selector;
  }

  #group(kind: 'or' | 'and'): Selector {
    const part = (): Selector => (kind === 'or' ? this.#group('and') : this.#operation());
    const first = part();
    const parts = [first];
    while (this.#takeText(kind === 'or' ? '||' : '&&')) parts.push(part());
    return parts.length === 1 ? first : { kind, of: parts };
  }

  #operation(): Selector {
    let isNegated = false;
    this.#take(SPACE);
    while (this.#takeText('!')) isNegated = !isNegated;
    const selector = this.#primary();
    this.#take(SPACE);
    return isNegated ? negate(selector) : selector;
  }

  #primary(): Selector {
    if (this.#takeText('(')) return this.#inParentheses();
    const start = this.#at;
    const label = this.#label();
    if (this.#text[this.#at] === '(') {
      if (label === 'all' || label === 'global') {
        this.#at += 1;
        this.#expect(')');
        return { kind: label };
      }
      if (label === 'has') {
        this.#at += 1;
        this.#take(SPACE);
        const asked = this.#label();
        this.#expect(')');
        return { kind: 'has', label: asked };
      }
    }
    if (label.length > LONGEST_LABEL)
      throw new Unexpected(`a label name is longer than ${String(LONGEST_LABEL)}`, start);
    return this.#comparison(label);
  }

  #inParentheses(): Selector {
    this.#depth += 1;
    if (this.#depth > DEEPEST) throw new Unexpected('parentheses are nested too deeply', this.#at);
    const selector = this.#group('or');
    this.#expect(')');
    this.#depth -= 1;
    return selector;
  }

  #comparison(label: string): Selector {
    this.#take(SPACE);
    const operator = OPERATORS.find(([pattern]) => this.#take(pattern) !== undefined)?.[1];
    if (operator === undefined) {
      throw this.#unexpected('an operator (==, !=, in, not in, contains, starts with, ends with)');
    }
    if (operator === 'in' || operator === 'not in') return { kind: operator, label, values: this.#set() };
    return { kind: operator, label, value: this.#string() };
  }

  /** Parses a set of values, sorted and without duplicates. A comma may follow the last value. */
  #set(): string[] {
    const values = new Set<string>();
    this.#expect('{');
    while (!this.#takeText('}')) {
      values.add(this.#string());
      if (!this.#takeText(',') && this.#text[this.#at] !== '}') throw this.#unexpected('"," or "}"');
    }
    return [...values].sort();
  }

  #string(): string {
    this.#take(SPACE);
    const quote = this.#text[this.#at];
    if (quote !== '"' && quote !== "'") throw this.#unexpected('a string in quotes');
    const end = this.#text.indexOf(quote, this.#at + 1);
    if (end < 0) throw new Unexpected('the string is not closed', this.#at);
    const value = this.#text.slice(this.#at + 1, end);
    this.#at = end + 1;
    return value;
  }

  #label(): string {
    const label = this.#take(LABEL);
    if (label === undefined) throw this.#unexpected('a label name, "(", "has(…)" or "all()"');
    return label;
  }

  #expect(text: string): void {
    if (!this.#takeText(text)) throw this.#unexpected(`"${text}"`);
  }

  /** Consumes the text and the white space around it; returns false when it does not follow. */
  #takeText(text: string): boolean {
    this.#take(SPACE);
    if (!this.#text.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    this.#take(SPACE);
    return true;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text)?.[0];
    this.#at += match?.length ?? 0;
    return match;
  }

  #unexpected(expected: string): Unexpected {
    const rest = this.#text.slice(this.#at, this.#at + 12);
    return new Unexpected(`expected ${expected}, found ${rest === '' ? 'the end' : JSON.stringify(rest)}`, this.#at);
  }
}
