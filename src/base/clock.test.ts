import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { repeat, systemClock, untilBeat } from './clock.ts';

beforeEach(() => vi.useFakeTimers({ now: 0, toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }));
afterEach(() => vi.useRealTimers());

it('periodic checks that start at different times wake the process together', async () => {
  const stop = new AbortController();
  const beats: [string, number][] = [];
  const note = (name: string) => (): void => void beats.push([name, performance.now()]);
  repeat(note('a'), 1000, stop.signal);
  await vi.advanceTimersByTimeAsync(370);
  repeat(note('b'), 1000, stop.signal);
  await vi.advanceTimersByTimeAsync(4000);
  stop.abort();
  await vi.advanceTimersByTimeAsync(4000);
  const timesOf = (name: string): number[] => beats.flatMap(([of, atMs]) => (of === name ? atMs : []));
  expect(timesOf('b')).toEqual([2001, 3001, 4001]);
  expect(timesOf('a')).toEqual([...timesOf('b')]);
});

it('a periodic check that ran late is not repeated within half a period', async () => {
  const stop = new AbortController();
  let lateMs = 0;
  const now = vi.spyOn(performance, 'now').mockImplementation(() => Date.now() + lateMs);
  const beats: number[] = [];
  repeat(() => void beats.push(performance.now()), 1000, stop.signal);
  await vi.advanceTimersByTimeAsync(1500);
  lateMs = 700;
  await vi.advanceTimersByTimeAsync(3000);
  stop.abort();
  now.mockRestore();
  expect(beats).toEqual([2701, 4001, 5001]);
});

it('a check sleeps until the next multiple of its period', () => {
  const at = (ms: number) => ({ ...systemClock, monotonic: () => ms });
  expect([untilBeat(1000, at(0)), untilBeat(1000, at(1999.5)), untilBeat(5000, at(7000))]).toEqual([1001, 2, 3001]);
});
