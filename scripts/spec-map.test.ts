import { describe, expect, it } from 'vitest';
import { mapFaults, type MapSources, parseMap } from './spec-map.ts';
import { sentencesOf } from './specification.ts';

const SPECIFICATION = `# Title

Before any section. It has two sentences.

## First

| Field | Rule |
|---|---|
| a | One row. It counts once. |
| b | |

### Part

1. An item (in brackets). Its second sentence
   goes on.
- Another with v3.27 in it.
`;

describe('the sentences of a specification', () => {
  it('are rows of tables, and the sentences of paragraphs and of items of lists', () => {
    expect(sentencesOf(SPECIFICATION).map(({ place, text }) => `${place}: ${text}`)).toEqual([
      '0.0.1: Before any section.',
      '0.0.2: It has two sentences.',
      '1.0.1: | a | One row. It counts once. |',
      '1.0.2: | b | |',
      '1.1.1: An item (in brackets).',
      '1.1.2: Its second sentence goes on.',
      '1.1.3: Another with v3.27 in it.',
    ]);
  });

  it('have another hash when a word changes, and the same one when a line is broken elsewhere', () => {
    const hashes = (text: string): string[] => sentencesOf(text).map(({ hash }) => hash);
    expect(hashes('One two\nthree.')).toEqual(hashes('One\ntwo three.'));
    expect(hashes('One two.')).not.toEqual(hashes('One too.'));
  });
});

describe('the check of the map', () => {
  const sentences = sentencesOf('## A\n\nFirst rule. Second rule. No rule.');
  const [first = '', second = '', none = ''] = sentences.map(({ place, hash }) => `${place} ${hash}`);
  const mapOf = (...rows: string[]): string => ['| id | sentences | rule | decided by | test |', ...rows].join('\n');
  const sound = [
    `| a-one | ${first}, ${second} | a rule | \`src/a.ts#decide\` | \`src/a.test.ts\` |`,
    '| a-own | own | a rule | `manifests/a.yaml` | `src/a.test.ts` |',
    '| sentences | why |',
    `| ${none} | introduces a list |`,
  ];
  const files: Record<string, string> = {
    'src/a.ts': 'export async function decide(): void {}\nfunction decideElse() {}',
    'manifests/a.yaml': '',
  };
  const sources: MapSources = {
    sentences,
    textOf: (file) => files[file],
    tests: new Map([
      ['src/a.test.ts', "it('decides [a-one]', () => {});\nit.each<[string]>([['x']])('%s [a-own]', () => {});"],
    ]),
  };
  const faults = (rows: readonly string[], more: Partial<MapSources> = {}): readonly string[] =>
    mapFaults(parseMap(mapOf(...rows)), { ...sources, ...more });

  it('finds nothing in a sound map, with the specification and without', () => {
    expect(faults(sound)).toEqual([]);
    expect(faults(sound, { sentences: undefined })).toEqual([]);
  });

  it('names a sentence without a row, one that has changed, and one that has gone', () => {
    expect(faults(sound.slice(0, 3))).toEqual([expect.stringMatching(/^sentence 1\.0\.3 \w+ has no row: No rule\.$/)]);
    const changed = sentencesOf('## A\n\nFirst rule. Another rule.');
    expect(faults(sound, { sentences: changed })).toEqual([
      expect.stringContaining('a-one: sentence 1.0.2 has changed'),
      'no rule: the specification has no sentence 1.0.3',
    ]);
  });

  it.each<[string, string, string]>([
    ['`src/a.ts#decide`', '`src/b.ts#decide`', 'a-one: there is no file "src/b.ts"'],
    ['`src/a.ts#decide`', '`src/a.ts#decid`', 'a-one: "src/a.ts" declares no "decid"'],
    ['`src/a.ts#decide`', '`src/a.ts`', 'a-one: names no function of "src/a.ts"'],
    ['`src/a.ts#decide`', '', 'a-one: names no function that decides'],
    ['`src/a.test.ts`', '`src/b.test.ts`', 'a-one: there is no file of tests "src/b.test.ts"'],
    ['| a-one |', '| a-two |', 'a-two: no test title in "src/a.test.ts" carries [a-two]'],
    ['| a-one |', '| a-two |', 'a-one: a test title names it, the map does not'],
    ['| a-one |', '| a-own |', 'a-own: listed twice'],
    [' | a rule |', ' |', 'not a row of the map: '],
  ])('names what is wrong when %s becomes %s', (from, to, fault) => {
    const [row = '', ...others] = sound;
    expect(faults([row.replace(from, to), ...others]).join('\n')).toContain(fault);
  });
});
