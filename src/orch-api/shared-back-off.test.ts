import { describe, expect, it } from 'vitest';
import { virtualClock } from '../base/clock.ts';
import { seededRandom } from '../base/random.ts';
import { SharedBackOff } from './shared-back-off.ts';

const never = new AbortController().signal;

describe('the common back-off of watches', () => {
  it('grows each time the API does not serve after a rest, up to 5 s', async () => {
    const clock = virtualClock();
    const backOff = new SharedBackOff({ clock, random: seededRandom(1) });
    const rests: number[] = [];
    for (let time = 0; time < 8; time += 1) {
      backOff.refused(undefined);
      rests.push(backOff.restMs);
      await backOff.wait(never);
    }
    expect(rests).toEqual([100, 200, 400, 800, 1600, 3200, 5000, 5000]);
  });

  it('counts what several meet at the same moment once', () => {
    const backOff = new SharedBackOff({ clock: virtualClock(), random: seededRandom(1) });
    for (let watch = 0; watch < 5; watch += 1) backOff.refused(undefined);
    expect(backOff.restMs).toBe(100);
  });

  it('lasts as long as the API asks for, and begins small again once it serves', async () => {
    const backOff = new SharedBackOff({ clock: virtualClock(), random: seededRandom(1) });
    backOff.refused(undefined);
    backOff.refused(7000);
    expect(backOff.restMs).toBe(7000);
    await backOff.wait(never);
    backOff.served();
    backOff.refused(undefined);
    expect(backOff.restMs).toBe(100);
  });

  it('lets each come back at another moment, none before the rest is over', async () => {
    const ends = await Promise.all(
      [1, 2, 3, 4, 5].map(async (seed) => {
        const clock = virtualClock();
        const backOff = new SharedBackOff({ clock, random: seededRandom(seed) });
        backOff.refused(1000);
        await backOff.wait(never);
        return clock.monotonic();
      }),
    );
    expect(new Set(ends).size).toBe(5);
    for (const end of ends) expect(end).toSatisfy((ms: number) => ms >= 1000 && ms <= 1500);
  });
});
