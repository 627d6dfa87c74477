import { uptime } from 'node:os';
import { systemClock } from '../base/clock.ts';

/** Returns when the kernel of this machine started, by its clock of today, in milliseconds since 1970. */
export function bootedAtMs(): number {
  return systemClock.now() - uptime() * 1000;
}
