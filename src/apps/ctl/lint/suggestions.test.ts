import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { repair } from './fix.ts';
import { lintSource } from './lint-source.ts';
import type { PlacedRemark } from './placed-remark.ts';

interface Mistake {
  readonly made: string;
  readonly base?: 'list' | 'local';
  readonly file?: string;
  readonly swap?: readonly [string, string];
  readonly with?: readonly [string, string];
  readonly text?: string;
  readonly at: string;
  readonly suggests: string;
}

interface Corpus {
  readonly base: Readonly<Record<'list' | 'local', string>>;
  readonly mistakes: readonly Mistake[];
}

const CORPUS = parse(
  readFileSync(new URL('../../../../test/golden/netconf-mistakes.yaml', import.meta.url), 'utf8'),
) as Corpus;
const RIGHT_SHARE = 0.9;
const never = new AbortController().signal;

function textOf({ base = 'list', swap, with: also, text = CORPUS.base[base] }: Mistake): string {
  return [swap, also].reduce((changed, change) => {
    if (change === undefined) return changed;
    if (!changed.includes(change[0])) throw new Error(`nothing to swap: ${change[0]}`);
    return changed.replace(change[0], () => change[1]);
  }, text);
}

function sourceOf(mistake: Mistake): { name: string; text: string } {
  const ending = mistake.base === 'local' || mistake.text !== undefined ? 'conf' : 'conflist';
  const isList = mistake.text?.includes('"plugins": ') ?? false;
  return { name: mistake.file ?? `10-netplug.${isList ? 'conflist' : ending}`, text: textOf(mistake) };
}

function isAbout({ problem: { path }, region }: PlacedRemark, at: string): boolean {
  return path === at || path.endsWith(`.${at}`) || `${String(region.line)}:${String(region.column)}` === at;
}

function wordsOf({ problem: { message, hint = '' } }: PlacedRemark): string {
  return `${message} (${hint})`;
}

describe('suggestions of netplugctl lint', () => {
  it('are absent for the correct configurations of the corpus', () => {
    for (const [name, text] of Object.entries(CORPUS.base)) {
      expect(lintSource({ name: name === 'list' ? 'a.conflist' : 'a.conf', text })).toEqual([]);
    }
  });

  it('are right for nine of ten common mistakes', () => {
    const wrong = CORPUS.mistakes.flatMap((mistake) => {
      const remarks = lintSource(sourceOf(mistake));
      const said = remarks.filter((remark) => isAbout(remark, mistake.at)).map(wordsOf);
      if (said.some((words) => words.includes(mistake.suggests))) return [];
      const all = remarks.map(
        (each) => `${each.region.line}:${each.region.column} ${each.problem.path}: ${wordsOf(each)}`,
      );
      return [`${mistake.made}: not "${mistake.suggests}" at ${mistake.at} but\n    ${all.join('\n    ')}`];
    });
    expect(CORPUS.mistakes.length).toBeGreaterThanOrEqual(120);
    const isGoodEnough = 1 - wrong.length / CORPUS.mistakes.length >= RIGHT_SHARE;
    expect(isGoodEnough ? [] : wrong).toEqual([]);
  });

  it('are applied only if they leave fewer remarks and cause no new one', async () => {
    const repaired = CORPUS.mistakes.map(async (mistake) => {
      const source = sourceOf(mistake);
      const before = lintSource(source).map(wordsOf);
      const { repairs, remarks, source: after } = await repair(source, never);
      const left = remarks.map(wordsOf);
      return {
        isFixed: repairs.length > 0,
        isBetter: left.length < before.length,
        isChanged: after.text !== source.text,
        news: left.filter((words) => !before.includes(words)),
      };
    });
    const results = await Promise.all(repaired);
    const fixed = results.filter(({ isFixed }) => isFixed);
    expect(results.filter(({ isFixed }) => !isFixed).some(({ isChanged }) => isChanged)).toBe(false);
    expect(fixed.every(({ isBetter, isChanged }) => isBetter && isChanged)).toBe(true);
    expect(fixed.flatMap(({ news }) => news)).toEqual([]);
    expect(fixed.length).toBeGreaterThan(30);
  });
});
