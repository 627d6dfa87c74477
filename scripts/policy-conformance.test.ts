import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROW = /^\| .+ \| `(\S+)`\s+\| (.+?)\s+\|$/;

it('each row of docs/policy-conformance.md names a test that exists', () => {
  const rows = readFileSync('docs/policy-conformance.md', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, file, title] = ROW.exec(line) ?? [];
      return file === undefined || title === undefined ? [] : [{ file, title }];
    });
  expect(rows.length).toBeGreaterThan(50);
  const cases = readFileSync('test/support/policy-cases.ts', 'utf8');
  const missing = rows.filter(({ file, title }) => {
    const text = readFileSync(file, 'utf8') + (file.includes('policy-conformance') ? cases : '');
    return !text.includes(`'${title}'`);
  });
  expect(missing).toEqual([]);
});
