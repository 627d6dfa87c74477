import { expect, it } from 'vitest';
import { describeMinutes } from './minutes.ts';

it('the summary of a test run gives the time of parts and projects by the clock, not the sum of their files, and the longest files first', () => {
  const file = (project: string, name: string, start: number, end: number) => ({
    project,
    file: name,
    startMs: start * 1000,
    endMs: end * 1000,
  });
  const lines = describeMinutes(
    [{ name: 'check lint', startMs: 0, endMs: 11_600 }],
    [file('unit', 'a.test.ts', 20, 30), file('unit', 'b.test.ts', 21, 50), file('e2e', 'c.test.ts', 50, 55)],
  );
  expect(lines).toEqual([
    'time by the clock, in seconds; parts run beside each other:',
    '    12  check lint',
    '    30  tests of unit (2 files)',
    '     5  tests of e2e (1 files)',
    'files that ran longest:',
    '    29  b.test.ts (unit)',
    '    10  a.test.ts (unit)',
    '     5  c.test.ts (e2e)',
  ]);
});
