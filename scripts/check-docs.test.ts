import { expect, it } from 'vitest';
import { faultsOf } from './check-docs.ts';

const exists = (path: string): boolean => ['docs/a.md', 'docs/b.md', 'examples'].includes(path);
const faults = (text: string): string[] =>
  faultsOf(
    [
      { file: 'docs/a.md', text },
      { file: 'docs/b.md', text: '# B\n\n## `kv` and more: 2 of them\n\n<a id="store-locked"></a>\n' },
    ],
    exists,
  );

it.each([
  'a [page](b.md), a [heading](b.md#kv-and-more-2-of-them), an [anchor](b.md#store-locked), a [folder](../examples)',
  '# Own heading\n\n[here](#own-heading), [elsewhere](https://example.org/x#y), `[code](nowhere.md)`',
  '```\n[code](nowhere.md)\n| padded    |\n```',
  '| a | b |\n| --- | --- |\n|  | empty |',
])('a page is sound: %s', (text) => {
  expect(faults(text)).toEqual([]);
});

it.each([
  ['[gone](c.md)', 'docs/a.md: the link c.md leads to no file'],
  ['[gone](b.md#c)', 'docs/a.md: the link b.md#c leads to no heading'],
  ['[gone](#c)', 'docs/a.md: the link #c leads to no heading'],
  ['<<<<<<< HEAD', 'docs/a.md: a conflict is not resolved: <<<<<<< HEAD'],
  ['| a    | b |', 'docs/a.md: a row of a table is padded: | a    |…'],
  [
    'word '.repeat(121),
    'docs/a.md: a paragraph of 604 characters: word word word word word word word word word word word word …',
  ],
  ['word\n\n'.repeat(201), 'docs/a.md has 402 lines, more than 400'],
])('a fault of a page is named', (text, fault) => {
  expect(faults(text)).toEqual([fault]);
});
