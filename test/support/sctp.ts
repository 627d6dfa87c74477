import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';

/** Reports whether programs can use SCTP, after an attempt to load the module of the kernel. */
export async function hasSctp(): Promise<boolean> {
  spawnSync('modprobe', ['--quiet', 'sctp']);
  return /^SCTP\b/m.test(await readFile('/proc/net/protocols', 'utf8'));
}
