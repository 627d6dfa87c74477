import { describe, expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { seededRandom } from '../base/random.ts';
import { SharedBackOff } from './shared-back-off.ts';
import { resumeDelayMs, type StreamEnd, watchTimeoutS } from './watch-pace.ts';

const never = new AbortController().signal;
const AGENTS = 5000;

/** Returns when an agent is served again that lost the API at 0, in milliseconds of its own clock. */
async function returnOf(seed: number, { end, outageMs }: { end: StreamEnd; outageMs: number }): Promise<number> {
  const clock = virtualClock();
  const random = seededRandom(seed);
  const backOff = new SharedBackOff({ clock, random });
  await clock.sleep(resumeDelayMs(end, random), never);
  while (clock.monotonic() < outageMs) {
    backOff.refused('pods', undefined);
    await backOff.wait('pods', never);
  }
  return clock.monotonic();
}

/** The part of all times that the fullest 100 ms hold. */
function fullest(timesMs: readonly number[]): number {
  const slots = new Map<number, number>();
  for (const ms of timesMs) slots.set(Math.floor(ms / 100), (slots.get(Math.floor(ms / 100)) ?? 0) + 1);
  return Math.max(...slots.values()) / timesMs.length;
}

const allAgents = async (what: { end: StreamEnd; outageMs: number }): Promise<number[]> =>
  Promise.all(Array.from({ length: AGENTS }, async (_, seed) => returnOf(seed, what)));

describe('5 000 agents that lose the API server at the same moment', () => {
  it.each([
    ['restarts at once', { end: 'broken', outageMs: 0 }, 0.13, 1200],
    ['has forgotten their versions', { end: 'forgotten', outageMs: 0 }, 0.05, 3200],
    ['is down for 30 s', { end: 'broken', outageMs: 30_000 }, 0.06, 40_001],
  ] as const)('come back one after the other when it %s', async (_, what, part, lastMs) => {
    const times = await allAgents(what);
    expect(fullest(times)).toBeLessThan(part);
    expect(Math.max(...times)).toBeLessThan(lastMs);
  });

  it('list thousands of objects again at times that are far apart', () => {
    const times = Array.from({ length: AGENTS }, (_, seed) => resumeDelayMs('forgotten', seededRandom(seed), 20_000));
    expect(fullest(times)).toBeLessThan(0.006);
    expect(Math.max(...times)).toBeLessThan(30_200);
  });

  it('renew their watches at different times', () => {
    const times = Array.from({ length: AGENTS }, (_, seed) => 1000 * watchTimeoutS(seededRandom(seed)));
    expect(fullest(times)).toBeLessThan(0.01);
    expect(times.every((ms) => ms >= 300_000 && ms < 600_000)).toBe(true);
  });
});
