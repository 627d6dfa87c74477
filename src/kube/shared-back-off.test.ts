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
      backOff.refused('pods', undefined);
      rests.push(backOff.restMs('pods'));
      await backOff.wait('pods', never);
    }
    const wholeMs = [100, 200, 400, 800, 1600, 3200, 5000, 5000];
    expect(rests.every((ms, index) => ms >= wholeMs[index]! / 2 && ms <= wholeMs[index]!)).toBe(true);
  });

  it('counts what several meet at the same moment once', () => {
    const backOff = new SharedBackOff({ clock: virtualClock(), random: seededRandom(1) });
    for (let watch = 0; watch < 5; watch += 1) backOff.refused(`kind-${String(watch)}`, undefined);
    expect(backOff.restMs('another')).toBeLessThanOrEqual(100);
  });

  it('lasts as long as the API asks for, and begins small again once it serves', async () => {
    const backOff = new SharedBackOff({ clock: virtualClock(), random: seededRandom(1) });
    backOff.refused('pods', undefined);
    backOff.refused('pods', 7000);
    expect(backOff.restMs('pods')).toBe(7000);
    await backOff.wait('pods', never);
    backOff.served('pods');
    backOff.refused('pods', undefined);
    expect(backOff.restMs('pods')).toBeLessThanOrEqual(100);
  });

  it('concerns one flow alone where the API asks for it, and lasts 30 s at most', () => {
    const backOff = new SharedBackOff({ clock: virtualClock(), random: seededRandom(1) });
    backOff.refused('pods', 86_400_000);
    expect(backOff.restMs('pods')).toBe(30_000);
    expect(backOff.restMs('blocks')).toBe(0);
  });

  it('lets each come back at another moment, none before the rest is over', async () => {
    const ends = await Promise.all(
      [1, 2, 3, 4, 5].map(async (seed) => {
        const clock = virtualClock();
        const backOff = new SharedBackOff({ clock, random: seededRandom(seed) });
        backOff.refused('pods', 1000);
        await backOff.wait('pods', never);
        return clock.monotonic();
      }),
    );
    expect(new Set(ends).size).toBe(5);
    for (const end of ends) expect(end).toSatisfy((ms: number) => ms >= 1000 && ms <= 2000);
  });
});
