import { describe, expect, it } from 'vitest';
import { type Clock, virtualClock } from './clock.ts';
import { seededRandom } from './random.ts';
import { Restarts } from './restarts.ts';

const never = new AbortController().signal;
const pauses = { firstMs: 100, longestMs: 1000, longestRefusedMs: 5000 };

async function restsOf(clock: Clock, lastsMs: readonly number[]): Promise<number[]> {
  const restarts = new Restarts({ clock, random: seededRandom(1) }, pauses);
  const rests: number[] = [];
  for (const ms of lastsMs) {
    restarts.begin();
    await clock.sleep(ms, never);
    restarts.fail(new Error('it broke'));
    const before = clock.monotonic();
    await restarts.rest(never);
    rests.push(clock.monotonic() - before);
  }
  return rests;
}

describe('work that begins again whenever it ends', () => {
  it('pauses longer each time it fails soon after it began', async () => {
    const rests = await restsOf(virtualClock(), [10, 10, 10, 10, 10, 10]);
    const whole = [100, 200, 400, 800, 1000, 1000];
    expect(rests.every((ms, index) => ms >= whole[index]! / 2 && ms <= whole[index]!)).toBe(true);
  });

  it('begins again after the first pause when it had lasted', async () => {
    const rests = await restsOf(virtualClock(), [10, 10, 10, 10, 6000]);
    expect(rests.at(-1)).toBeLessThanOrEqual(100);
  });
});
