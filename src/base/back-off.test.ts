import { describe, expect, it } from 'vitest';
import { BackOff, backOffConflict, backOffMs, keepRunning } from './back-off.ts';
import { virtualClock } from './clock.ts';
import { NetplugError } from './errors.ts';
import { seededRandom } from './random.ts';

const never = new AbortController().signal;
const policy = { firstMs: 100, maxMs: 2000, maxRefusedMs: 10_000 };
const unavailable = new NetplugError('store/unavailable', 'Cannot use the datastore', { hint: 'Try again' });
const refused = new NetplugError('store/refused', 'Cannot use the datastore', { hint: 'Check the rights' });

function waitsAfter(cause: unknown, seed = 1): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: 40 }, (_, index) => backOffMs(policy, { failures: index + 1, cause }, random));
}

describe('the back-off after a failure', () => {
  it.each([
    ['2 s while the datastore is unreachable', unavailable, 2000],
    ['10 s while it refuses the request', refused, 10_000],
  ])('doubles up to %s, and is at least half of that', (_, cause, maxMs) => {
    for (const [index, ms] of waitsAfter(cause).entries()) {
      const wholeMs = Math.min(maxMs, 100 * 2 ** index);
      expect(ms).toBeGreaterThanOrEqual(wholeMs / 2);
      expect(ms).toBeLessThanOrEqual(wholeMs);
    }
  });

  it('differs from node to node', () => {
    expect(new Set([1, 2, 3, 4, 5].map((seed) => waitsAfter(refused, seed).at(-1))).size).toBe(5);
  });
});

describe('the back-off after a conflict with a concurrent write', () => {
  it('starts with 2 ms and is at most 2 s', async () => {
    const clock = virtualClock();
    const random = seededRandom(1);
    const waited: number[] = [];
    for (let conflicts = 0; conflicts < 40; conflicts += 1) {
      const before = clock.monotonic();
      await backOffConflict({ clock, random }, conflicts, never);
      waited.push(clock.monotonic() - before);
    }
    expect(waited[0]).toBe(0);
    for (const [conflicts, ms] of waited.entries()) expect(ms).toBeLessThanOrEqual(Math.min(2000, 2 ** conflicts));
    expect(Math.max(...waited)).toBeGreaterThan(1000);
  });
});

describe('work that is restarted whenever it ends', () => {
  const waitsOf = async (lastsMs: readonly number[]): Promise<number[]> => {
    const clock = virtualClock();
    const backOff = new BackOff({ clock, random: seededRandom(1) }, policy);
    const waits: number[] = [];
    for (const ms of lastsMs) {
      backOff.start();
      await clock.sleep(ms, never);
      backOff.fail(unavailable);
      const before = clock.monotonic();
      await backOff.wait(never);
      waits.push(clock.monotonic() - before);
    }
    return waits;
  };

  it('waits longer each time it fails soon after it started', async () => {
    const waits = await waitsOf([10, 10, 10, 10, 10, 10, 10]);
    const wholeMs = [100, 200, 400, 800, 1600, 2000, 2000];
    expect(waits.every((ms, index) => ms >= wholeMs[index]! / 2 && ms <= wholeMs[index]!)).toBe(true);
  });

  it('waits as after the first failure once it had lasted longer than the longest wait', async () => {
    const waits = await waitsOf([10, 10, 10, 10, 11_000]);
    expect(waits.at(-1)).toBeLessThanOrEqual(100);
  });
});

describe('work that is kept running', () => {
  it('is restarted after a failure and after an end, and reports failures in a row until the signal aborts', async () => {
    const clock = virtualClock();
    const stop = new AbortController();
    const startedMs: number[] = [];
    const failures: number[] = [];
    const work = async (): Promise<void> => {
      startedMs.push(clock.monotonic());
      await clock.sleep(startedMs.length === 3 ? 60_000 : 1, stop.signal);
      if (startedMs.length === 5) stop.abort();
      if (startedMs.length !== 4) throw unavailable;
    };
    await keepRunning(
      { clock, random: seededRandom(1) },
      { work, onFailure: (_, count) => failures.push(count) },
      stop.signal,
    );
    expect(failures).toEqual([1, 2, 1]);
    expect(startedMs).toHaveLength(5);
    expect(Math.min(...startedMs.slice(1).map((at, index) => at - (startedMs[index] ?? 0)))).toBeGreaterThanOrEqual(50);
  });
});
