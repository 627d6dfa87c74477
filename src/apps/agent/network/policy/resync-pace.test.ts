import { expect, it } from 'vitest';
import { ResyncPace } from './resync-pace.ts';

it('compares the kernel every 10 s, and less often when that takes long, but lists records every 10 s', () => {
  let nowMs = 1000;
  const pace = new ResyncPace({ monotonic: () => nowMs });
  expect(pace.compareInMs).toBe(Number.NEGATIVE_INFINITY);
  nowMs += 3000;
  pace.listed(1000);
  pace.compared(1000);
  expect([pace.listInMs, pace.compareInMs]).toEqual([7000, 7000]);
  nowMs += 7000;
  const beganMs = nowMs;
  nowMs += 2000;
  pace.listed(beganMs);
  pace.compared(beganMs);
  expect([pace.listInMs, pace.compareInMs]).toEqual([8000, 18_000]);
  nowMs += 58_000;
  pace.compared(beganMs);
  expect(pace.compareInMs).toBe(240_000);
  pace.forget();
  expect([pace.listInMs, pace.compareInMs]).toEqual([Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]);
});
