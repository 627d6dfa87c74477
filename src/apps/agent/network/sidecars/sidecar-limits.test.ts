import { expect, it } from 'vitest';
import { SidecarLimits } from './sidecar-limits.ts';

it('lets a sidecar that was lost come back soon, and one that comes and goes ever more rarely', () => {
  const limits = new SidecarLimits();
  expect(limits.mayBegin(0)).toBe(true);
  limits.began(0);
  limits.ended(60_000);
  expect([limits.mayBegin(60_499), limits.mayBegin(60_500)]).toEqual([false, true]);
  let nowMs = 60_500;
  for (const pauseMs of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
    limits.began(nowMs);
    limits.ended(nowMs);
    expect([limits.mayBegin(nowMs + pauseMs - 1), limits.mayBegin(nowMs + pauseMs)]).toEqual([false, true]);
    nowMs += pauseMs;
  }
});

it('counts the messages of a second over all connections', () => {
  const limits = new SidecarLimits();
  const taken = Array.from({ length: 100 }, (_, at) => {
    if (at === 20) limits.ended(at);
    return limits.count(at);
  });
  expect(taken.filter(Boolean)).toHaveLength(50);
  expect(limits.count(1000)).toBe(true);
});
