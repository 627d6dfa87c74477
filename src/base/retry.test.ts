import { describe, expect, it } from 'vitest';
import { virtualClock } from './clock.ts';
import { NetplugError } from './errors.ts';
import { seededRandom } from './random.ts';
import { backOff, pauseMs } from './retry.ts';

const never = new AbortController().signal;
const pauses = { firstMs: 100, longestMs: 2000, longestRefusedMs: 10_000 };
const unavailable = new NetplugError('store/unavailable', 'Cannot use the datastore', { hint: 'Try again' });
const refused = new NetplugError('store/refused', 'Cannot use the datastore', { hint: 'Check the rights' });

function pausesAfter(cause: unknown, seed = 1): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: 40 }, (_, index) => pauseMs({ failures: index + 1, cause }, pauses, random));
}

describe('the pause between tries that go on until one succeeds', () => {
  it.each([
    ['2 s while the datastore is unreachable', unavailable, 2000],
    ['10 s while it refuses the request', refused, 10_000],
  ])('doubles up to %s, and at least half of it is certain', (_, cause, longestMs) => {
    for (const [index, ms] of pausesAfter(cause).entries()) {
      const wholeMs = Math.min(longestMs, 100 * 2 ** index);
      expect(ms).toBeGreaterThanOrEqual(wholeMs / 2);
      expect(ms).toBeLessThanOrEqual(wholeMs);
    }
  });

  it('differs from node to node', () => {
    expect(new Set([1, 2, 3, 4, 5].map((seed) => pausesAfter(refused, seed).at(-1))).size).toBe(5);
  });
});

describe('the back-off between tries that others won', () => {
  it('is short at first and at most 2 s in the end', async () => {
    const clock = virtualClock();
    const random = seededRandom(1);
    const waited: number[] = [];
    for (let attempt = 0; attempt < 40; attempt += 1) {
      const before = clock.monotonic();
      await backOff({ clock, random }, attempt, never);
      waited.push(clock.monotonic() - before);
    }
    expect(waited[0]).toBe(0);
    for (const [attempt, ms] of waited.entries()) expect(ms).toBeLessThanOrEqual(Math.min(2000, 2 ** attempt));
    expect(Math.max(...waited)).toBeGreaterThan(1000);
  });
});
