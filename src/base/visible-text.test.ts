import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createLog } from './log.ts';
import { visibleLines, visibleText } from './visible-text.ts';
import { yamlText } from './yaml-text.ts';

/** Escape sequences, C1 controls, DEL, characters for the direction of text, invisible ones, tags, and half a pair. */
const EVIL =
  '\u001b]0;owned\u0007\u001b[2K\u009b8m\u007f\u202eabc\u2066\u200f\u061c\u200b\ufeff\u2028\u{e0041}\ud800 b\rc';
const STEERING = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

describe('a text from elsewhere', () => {
  it('shows every character that steers a terminal as JSON escapes it', () => {
    expect(visibleLines(EVIL)).not.toMatch(STEERING);
    expect(JSON.parse(`"${visibleLines(EVIL)}"`)).toBe(EVIL);
    expect(visibleLines('ä 漢字 🙂 a\tb\nc')).toBe('ä 漢字 🙂 a\tb\nc');
    expect(visibleText('a\nb')).toBe(String.raw`a\u000ab`);
  });

  it('keeps its value in YAML that is written', () => {
    for (const value of [EVIL, `line\n${EVIL}\nline`, 'two\nlines\n', 'plain: x', '\u2028', 'ä']) {
      const text = yamlText({ [value]: [value] });
      expect(text).not.toMatch(STEERING);
      // The reader of the tests takes half a pair for a character, as JSON does.
      expect(parse(text)).toEqual({ [value]: [value] });
    }
  });

  it('keeps other values in YAML as they were written before', () => {
    expect(yamlText({ a: 'b', c: 'two\nlines\n' })).toBe('a: b\nc: |\n  two\n  lines\n');
  });

  it('is one value in a line of the log', () => {
    const lines: string[] = [];
    createLog('INFO', [(line) => lines.push(line)], () => 0).info('seen', { text: EVIL, word: '\u202e' });
    expect(lines.join('').trimEnd()).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
  });
});
