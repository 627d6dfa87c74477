import type { Clock } from './clock.ts';
import type { Random } from './random.ts';

/** What waiting between tries needs. */
export interface Patience {
  readonly clock: Clock;
  readonly random: Random;
}

/** Waits before try number `attempt` (from 0): nothing at first, then a random part of 2, 4, 8 … up to `capMs`. */
export async function backOff({ clock, random }: Patience, attempt: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (attempt === 0) return;
  const capMs = 100;
  await clock.sleep(1 + random.int(Math.min(capMs, 2 ** attempt)), signal);
}
