// Time that passes only when everything waits, so that a simulation takes the same course whenever it has the same seed.
import { vi } from 'vitest';

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
    const course = { isOver: false };
    const result = work().finally(() => (course.isOver = true));
    result.catch(() => undefined);
    while (!course.isOver) {
      if (performance.now() - beginMs > LONGEST_MS) throw new Error('the simulation is stuck');
      await vi.advanceTimersToNextTimerAsync();
    }
    return await result;
  } finally {
    vi.useRealTimers();
  }
}

/** The wall clock is set, and the monotonic one goes on. */
export function jumpWallClock(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs);
}
