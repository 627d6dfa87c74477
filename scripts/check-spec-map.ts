// Every rule of docs/spec-map.md must stand in the title of a test, and its file must exist.
import { existsSync, globSync, readFileSync } from 'node:fs';

const ROW = /^\|\s*([a-z][a-z0-9-]*)\s*\|\s*(.*?)\s*\|\s*(.*?)\s*\|$/;
const TITLE_ID = /\[([a-z0-9-]+)\]/g;

const lines = readFileSync('docs/spec-map.md', 'utf8').split('\n');
const rules = lines
  .map((line) => ROW.exec(line))
  .filter((row) => row !== null && row[1] !== 'id')
  .map((row) => ({ id: row?.[1] ?? '', file: (row?.[3] ?? '').replaceAll('`', '') }));
const titles = globSync([
  'src/**/*.test.ts',
  'test/**/*.test.ts',
  'test/contract/suites/**/*.ts',
  'test/support/*-suite.ts',
]).flatMap((file) =>
  [...readFileSync(file, 'utf8').matchAll(/\b(?:it|test|describe)(?:\.\w+\([^;]*?\))?\(\s*(['"`])(.*?)\1/gs)].map(
    (match) => match[2] ?? '',
  ),
);
const proven = new Set(titles.flatMap((title) => [...title.matchAll(TITLE_ID)].map((match) => match[1] ?? '')));
const faults = [
  ...lines
    .filter((line) => line.startsWith('|') && line.split('|').length !== 5)
    .map((line) => `not a row of three cells: ${line}`),
  ...rules.filter(({ id }) => !proven.has(id)).map(({ id }) => `${id}: no test title carries [${id}]`),
  ...rules.filter(({ file }) => !existsSync(file)).map(({ id, file }) => `${id}: there is no file "${file}"`),
  ...[...proven]
    .filter((id) => !rules.some((rule) => rule.id === id))
    .map((id) => `${id}: a test title names it, docs/spec-map.md does not`),
  ...rules
    .filter(({ id }, index) => rules.findIndex((rule) => rule.id === id) !== index)
    .map(({ id }) => `${id}: listed twice`),
];
if (rules.length === 0 || titles.length === 0)
  faults.push('saw no rules or no tests at all: the checker itself is broken');
for (const fault of faults) console.error(fault);
process.exitCode = faults.length === 0 ? 0 : 1;
