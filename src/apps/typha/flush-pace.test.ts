import { expect, it } from 'vitest';
import { flushPeriodMs, untilFlushMs } from './flush-pace.ts';

it('writes to more clients more rarely, so that writes take at most a quarter of a core', () => {
  expect([1, 250, 1000, 2000, 10_000].map(flushPeriodMs)).toEqual([20, 20, 80, 160, 500]);
});

it('sends the first change after a quiet period at once, and the next ones together', () => {
  expect(untilFlushMs(0, 1000, 1000)).toBe(0);
  expect(untilFlushMs(1000, 1010, 1000)).toBe(70);
});
