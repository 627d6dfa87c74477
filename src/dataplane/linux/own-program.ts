import { readFile } from 'node:fs/promises';

/**
 * Returns how the kernel names the programs of netplug where it reports changes of nftables: by the thread that sends, which is one
 * of the pool, as is the one that reads here. Other programs on the same runtime have the name as well.
 */
export async function ownProgramName(): Promise<string> {
  return (await readFile('/proc/thread-self/comm', 'utf8')).trim();
}
