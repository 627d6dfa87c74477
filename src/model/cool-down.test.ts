import { describe, expect, it } from 'vitest';
import { coolsUntil, MAX_COOL_DOWN_SECONDS, noteRelease } from './cool-down.ts';
import type { LastRelease } from './ip-block.ts';

const AT = 1_800_000_000;
const release = (at: number): LastRelease => ({ at, holder: 'shop/web' });

describe('a released address', () => {
  it.each<[string, number, number, boolean]>([
    ['cools down at once', 0, 30, true],
    ['cools down until the last moment', 29.999, 30, true],
    ['is over its cool-down', 30, 30, false],
    ['cools down longer with another setting', 59, 60, true],
    ['does not cool down without a cool-down', 0, 0, false],
    ['cools down when the clock of the other node is a little ahead', -4, 30, true],
    // A clock was set back: for how long the address has been free is not known.
    ['does not wait for a time that a changed clock once showed', -6, 30, false],
  ])('%s', (_, age, seconds, isCooling) => {
    const released = new Map([[7, release(AT)]]);
    const until = coolsUntil({ released }, 7, { nowMs: (AT + age) * 1000, seconds });
    expect(until).toBe(isCooling ? AT + seconds : undefined);
  });

  it('is forgotten when another one is released after the longest cool-down, or after a clock was set back', () => {
    const released = new Map([
      [0, release(AT)],
      [1, release(AT + 1)],
      [2, release(AT + 2 * MAX_COOL_DOWN_SECONDS + 1)],
    ]);
    noteRelease(released, 3, release(AT + MAX_COOL_DOWN_SECONDS));
    expect([...released.keys()]).toEqual([1, 3]);
  });
});
