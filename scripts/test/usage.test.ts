import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { parseUsage, readUsage } from './usage.ts';

it('CPU time of a process and of its children is read behind a name with spaces and parentheses', () => {
  const stat = '77 (a) b (c)) S 1 77 77 0 -1 4194304 100 200 0 0 150 50 1000 250 20 0 1 0 5 0 0';
  expect(parseUsage(stat)).toEqual({ own: 2, children: 12.5 });
});

it('CPU time of children grows by what a child has used when it has ended', () => {
  const before = readUsage().children;
  spawnSync('sh', ['-c', 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done']);
  expect(readUsage().children).toBeGreaterThan(before);
});
