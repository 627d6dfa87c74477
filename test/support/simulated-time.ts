// Time that passes only when everything waits, so that a simulation takes the same course whenever it has the same seed.
import { vi } from 'vitest';
import { ownTurn } from '../../src/base/turns.ts';

/** No simulation takes longer; one that would is stuck. */
const LONGEST_MS = 3_600_000;

/** Carries the work out under simulated time: timers, turns of the event loop, wall clock and monotonic clock. */
export async function inSimulatedTime<T>(startMs: number, work: () => Promise<T>): Promise<T> {
  vi.useFakeTimers({
    now: startMs,
    toFake: [
      'setTimeout',
      'clearTimeout',
      'setInterval',
      'clearInterval',
      'setImmediate',
      'clearImmediate',
      'Date',
      'performance',
    ],
  });
  try {
    const beginMs = performance.now();
    let isDone = false;
    const result = work().finally(() => (isDone = true));
    result.catch(() => undefined);
    while (!isDone) {
      if (performance.now() - beginMs > LONGEST_MS) throw new Error('the simulation is stuck');
      await vi.advanceTimersToNextTimerAsync();
    }
    return await result;
  } finally {
    await untilNoTurnIsLeft();
    vi.useRealTimers();
  }
}

/** The wall clock is set, and the monotonic one goes on. */
export function jumpWallClock(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs);
}

/** Processes that died may wait for a turn, in a queue that the next simulation shares. */
async function untilNoTurnIsLeft(): Promise<void> {
  for (let turns = 2; turns > 1;) {
    turns = 0;
    let isOurs = false;
    void ownTurn().then(() => (isOurs = true));
    while (!isOurs) {
      turns += 1;
      await vi.advanceTimersByTimeAsync(0);
    }
  }
}
