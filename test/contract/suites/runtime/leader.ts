import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../../src/base/clock.ts';
import { silentLog } from '../../../../src/base/log.ts';
import { systemRandom } from '../../../../src/base/random.ts';
import { lead } from '../../../../src/runtime/lead.ts';
import type { LeaderLease } from '../../../../src/runtime/leader-lease.ts';
import type { CandidateOptions } from '../../../support/leader-candidate.ts';

export interface LeaderFixture extends AsyncDisposable {
  readonly candidate: (options: CandidateOptions, clock: Clock) => LeaderLease & AsyncDisposable;
}

const DURATION_MS = 3000;
/** A candidate looks at the lease every third of it. */
const LONG_MS = 60_000;
/** Time for a handover, on a busy machine as well, and much less than what a candidate waits until it looks again. */
const AT_ONCE_MS = LONG_MS / 6;
const never = new AbortController().signal;

/** What every lease of a leader does, and what leading by it promises. */
export function leaderContract(name: string, start: () => Promise<LeaderFixture>): void {
  describe(`the leader lease on ${name}`, { concurrent: true }, () => {
    let fixture: LeaderFixture;
    let count = 0;
    beforeAll(async () => void (fixture = await start()));
    afterAll(async () => fixture[Symbol.asyncDispose]());

    const pair = (
      clock = systemClock,
      durationMs = DURATION_MS,
    ): AsyncDisposable & { a: LeaderLease; b: LeaderLease } => {
      count += 1;
      const stack = new AsyncDisposableStack();
      const of = (holder: string): LeaderLease =>
        stack.use(fixture.candidate({ name: `lease-${String(count)}`, holder, durationMs }, clock));
      return { a: of('a'), b: of('b'), [Symbol.asyncDispose]: async () => stack.disposeAsync() };
    };

    it('is held by one of two candidates, as long as it renews', async () => {
      await using both = pair(systemClock, 2 * DURATION_MS);
      expect(await Promise.all([both.a.hold(never), both.b.hold(never)])).toContain(false);
      const [first, second] = (await both.a.hold(never)) ? [both.a, both.b] : [both.b, both.a];
      for (let times = 0; times < 8; times += 1) {
        expect(await first.hold(never)).toBe(true);
        expect(await second.hold(never)).toBe(false);
        await sleep(DURATION_MS / 3);
      }
    });

    it('is acquired at once after a release, of which the other candidate learns', async () => {
      await using both = pair(systemClock, LONG_MS);
      expect(await both.a.hold(never)).toBe(true);
      expect(await both.b.hold(never)).toBe(false);
      let isReleased = false;
      const released = both.b.released(never).then(() => (isReleased = true));
      await sleep(300);
      expect(isReleased).toBe(false);
      const sinceMs = performance.now();
      await both.a.release(never);
      await released;
      expect(await both.b.hold(never)).toBe(true);
      expect(performance.now() - sinceMs).toBeLessThan(AT_ONCE_MS);
      expect(await both.a.hold(never)).toBe(false);
    });

    it('is not acquired before it has expired, and then reported to its old holder as lost', async () => {
      await using both = pair();
      const sinceMs = performance.now();
      expect(await both.a.hold(never)).toBe(true);
      while (!(await both.b.hold(never))) await sleep(50);
      expect(performance.now() - sinceMs).toBeGreaterThanOrEqual(DURATION_MS);
      await both.b.release(never);
      expect(await both.a.hold(never)).toBe(false);
      expect(await both.a.hold(never)).toBe(true);
    });

    it.each([3_600_000, -3_600_000])('is kept by its holder when the clocks jump by %i ms', async (jumpMs) => {
      let offsetMs = 0;
      await using both = pair({ ...systemClock, now: () => Date.now() + offsetMs }, LONG_MS);
      expect(await both.a.hold(never)).toBe(true);
      expect(await both.b.hold(never)).toBe(false);
      offsetMs = jumpMs;
      expect(await both.b.hold(never)).toBe(false);
      expect(await both.a.hold(never)).toBe(true);
      expect(await both.b.hold(never)).toBe(false);
    });

    it('is handed over when the leader stops, long before the other candidate looks at it again', async () => {
      await using both = pair(systemClock, LONG_MS);
      const ports = { clock: systemClock, random: systemRandom, log: silentLog };
      const led: string[] = [];
      const run = (which: 'a' | 'b', stop: AbortController): Promise<void> =>
        lead(
          { ...ports, lease: both[which] },
          async ({ signal }) => {
            led.push(which);
            await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          },
          stop.signal,
        );
      const [stopA, stopB] = [new AbortController(), new AbortController()];
      const a = run('a', stopA);
      await until(() => led.includes('a'));
      const b = run('b', stopB);
      await sleep(DURATION_MS);
      expect(led).toEqual(['a']);
      const sinceMs = performance.now();
      stopA.abort();
      await until(() => led.includes('b'));
      expect(performance.now() - sinceMs).toBeLessThan(AT_ONCE_MS);
      stopB.abort();
      await Promise.all([a, b]);
    });
  });
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(5);
}
