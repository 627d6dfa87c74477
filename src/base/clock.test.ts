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
  vi.useRealTimers();
  const [stop, enough] = [new AbortController(), Promise.withResolvers<void>()];
  const beats: number[] = [];
  const onBeat = (): void => {
    beats.push(performance.now());
    // Blocks the event loop until the next beat is late by 140 of its 200 ms.
    if (beats.length === 1) while (performance.now() < (beats[0] ?? 0) + 200 || performance.now() % 200 < 140);
    if (beats.length === 4) enough.resolve();
  };
  repeat(onBeat, 200, stop.signal);
  await enough.promise;
  stop.abort();
  for (const [index, beat] of beats.slice(1).entries()) expect(beat - (beats[index] ?? 0)).toBeGreaterThan(100);
});

it('a check sleeps until the next multiple of its period', () => {
  const at = (ms: number) => ({ ...systemClock, monotonic: () => ms });
  expect([untilBeat(1000, at(0)), untilBeat(1000, at(1999.5)), untilBeat(5000, at(7000))]).toEqual([1001, 2, 3001]);
});
