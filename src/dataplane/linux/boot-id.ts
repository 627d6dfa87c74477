import { readFileSync } from 'node:fs';

/** The id that the kernel draws when the machine starts. */
export function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}
