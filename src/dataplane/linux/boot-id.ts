import { readFileSync } from 'node:fs';

/** Returns the random id that the kernel generates at boot. */
export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}
