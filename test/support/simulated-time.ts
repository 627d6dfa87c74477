// Time that passes only when everything waits, so that a simulation takes the same course whenever it has the same seed.
import { vi } from 'vitest';
import { ownTurn } from '../../src/base/turns.ts';

/** No simulation takes longer; one that would is stuck. */
const LONGEST_MS = 3_600_000;

/** Far more than processes that died at once wait for. */
const MOST_TURNS = 5000;

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
  let left = MOST_TURNS;
  const ours = { isOver: false };
  void ownTurn().then(() => (ours.isOver = true));
  for (; !ours.isOver && left > 0; left -= 1) await vi.advanceTimersByTimeAsync(0);
  if (left === 0) throw new Error('a process of the simulation goes on without a pause');
}
