import { expect, it } from 'vitest';
import { describeMinutes, describePrograms } from './minutes.ts';

it('the summary of a test run gives the time of parts and projects by the clock and of the processor, and the files with most of each', () => {
  const file = (project: string, name: string, start: number, end: number) => ({
    project,
    file: name,
    startMs: start * 1000,
    endMs: end * 1000,
  });
  const lines = describeMinutes(
    [{ name: 'check lint', startMs: 0, endMs: 11_600, cpuSeconds: 20.4 }],
    [
      file('unit', 'a.test.ts', 20, 30),
      { ...file('e2e', 'b.test.ts', 21, 50), cpuSeconds: 3 },
      { ...file('e2e', 'c.test.ts', 50, 55), cpuSeconds: 9 },
    ],
  );
  expect(lines).toEqual([
    'seconds by the clock and of the processor; parts run beside each other:',
    '    12     20  check lint',
    '    10      -  tests of unit (1 files)',
    '    34     12  tests of e2e (2 files)',
    'files that ran longest by the clock:',
    '    29      3  b.test.ts (e2e)',
    '    10      -  a.test.ts (unit)',
    '     5      9  c.test.ts (e2e)',
    'files that used most of the processor:',
    '     5      9  c.test.ts (e2e)',
    '    29      3  b.test.ts (e2e)',
    '    10      -  a.test.ts (unit)',
  ]);
});

it('the summary of a test run gives what programs used, all of them first', () => {
  const programs = [
    { program: 'kube-apiserver', processes: 10, cpuSeconds: 60 },
    { program: 'sh', processes: 90, cpuSeconds: 9 },
  ];
  expect(describePrograms(programs)).toEqual([
    'seconds of the processor, processes, and seconds of each, by program:',
    '    69     100    0.69  all programs of this machine',
    '    60      10    6.00  kube-apiserver',
    '     9      90    0.10  sh',
  ]);
});
