import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { seededRandom } from '../base/random.ts';
import { lead } from './lead.ts';
import type { LeaderLease } from './leader-lease.ts';

/** A third of it passes between the end of the leadership and that of the lease: enough on a busy machine. */
const DURATION_MS = 3000;
const never = new AbortController().signal;
const ports = { clock: systemClock, random: seededRandom(1), log: silentLog };

/** A lease that is held once; then each renewal has the given outcome. */
function lease(renew: () => Promise<boolean>): LeaderLease & { readonly releases: number } {
  let holds = 0;
  let releases = 0;
  return {
    durationMs: DURATION_MS,
    hold: async () => (holds++ === 0 ? true : renew()),
    release: async () => Promise.resolve(void (releases += 1)),
    released: async () => Promise.withResolvers<void>().promise,
    get releases() {
      return releases;
    },
  };
}

describe('lead', () => {
  it.each([
    ['does not answer', async () => Promise.withResolvers<boolean>().promise],
    ['fails', async () => Promise.reject(new Error('unreachable'))],
  ])('ends the leadership before the lease expires when the datastore %s', async (_, renew) => {
    const stop = new AbortController();
    const startMs = performance.now();
    await lead(
      { ...ports, lease: lease(renew) },
      async ({ signal, isHeld }) => {
        expect(isHeld()).toBe(true);
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        expect(isHeld()).toBe(false);
        stop.abort();
      },
      stop.signal,
    );
    expect(performance.now() - startMs).toBeLessThan(DURATION_MS);
  });

  it('ends the leadership at once when another process holds the lease', async () => {
    const stop = new AbortController();
    let isEnded = false;
    await lead(
      { ...ports, lease: lease(async () => Promise.resolve(false)) },
      async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        isEnded = true;
        stop.abort();
      },
      stop.signal,
    );
    expect(isEnded).toBe(true);
  });

  it('releases the lease and returns when the work ends', async () => {
    const held = lease(async () => Promise.resolve(true));
    await lead({ ...ports, lease: held }, async () => Promise.resolve(), never);
    expect(held.releases).toBe(1);
  });

  it('releases the lease and throws what the work throws', async () => {
    const held = lease(async () => Promise.resolve(true));
    const work = async (): Promise<void> => Promise.reject(new Error('cannot plan'));
    await expect(lead({ ...ports, lease: held }, work, never)).rejects.toThrow('cannot plan');
    expect(held.releases).toBe(1);
  });
});
