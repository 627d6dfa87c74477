import { ownValue } from '../base/own-value.ts';
/** Syntax of other languages that JSON does not allow outside strings, with the correction. */
const ODDITIES: readonly (readonly [RegExp, string])[] = [
  [/\/\/|\/\*|#/y, 'remove the comment; JSON has no comments'],
  [/[\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u201a]/y, 'write plain double quotes (") instead of typographic ones'],
  [/'/y, 'write double quotes (") instead of single ones'],
  [/`/y, 'write double quotes (") instead of backquotes'],
  [/[\u00a0\u2000-\u200b\u202f\u2060\u3000\ufeff]/y, 'write a plain space; this is a different white-space character'],
  [/\{\{|\{%|<%|\$\{|\$\(|%\{/y, 'fill in the placeholder'],
  [/</y, 'this looks like a web page, not JSON; fetch the file again'],
  [/[+]\d/y, 'remove "+"; JSON numbers have no plus sign'],
  [/\.\d/y, 'write a zero before the point'],
];

const WORDS: Readonly<Record<string, string>> = {
  true: 'true',
  yes: 'true',
  on: 'true',
  false: 'false',
  no: 'false',
  off: 'false',
  null: 'null',
  none: 'null',
  nil: 'null',
  undefined: 'null',
};

/** Returns the correction of syntax that JSON never allows outside strings; undefined for anything else. */
export function oddityAt(text: string, at: number): string | undefined {
  return ODDITIES.find(([pattern]) => isAt(pattern, text, at))?.[1];
}

/** Returns the correction of a word that is not allowed at this place. */
export function adviceOnWord(text: string, at: number, where: 'key' | 'value'): string {
  const word = /^[\w.:/@-]+/.exec(text.slice(at, at + 200))?.[0] ?? '';
  if (/^__\w+__$/.test(word)) return `fill in the placeholder ${word}`;
  if (where === 'key') {
    const key = /^[\w-]+/.exec(word)?.[0];
    return key === undefined ? 'put a key in double quotes before it' : `write "${key}", in double quotes`;
  }
  const number = readNumber(word);
  if (number !== undefined) return `write ${number}`;
  const meant = ownValue(WORDS, word.toLowerCase());
  if (meant !== undefined) return `write ${meant}`;
  if (word === '' || /^[:]/.test(word)) return 'put a value before it';
  return `write "${word}", in double quotes`;
}

/** Reads hexadecimal, octal and binary numbers, and decimal numbers with leading zeros or underscores. */
function readNumber(word: string): string | undefined {
  if (/^0[xob][\da-f]+$/i.test(word)) return String(Number(word));
  return /^-?[\d_]+$/.test(word) ? String(Number(word.replaceAll('_', ''))) : undefined;
}

function isAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}
