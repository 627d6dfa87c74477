import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';

/** State of a socket that listens, as /proc/net/tcp has it. */
const LISTEN = '0A';

/**
 * Returns the program that listens on a TCP port of this network namespace, as `name (pid)`; undefined when none does, and
 * when its process cannot be seen. Leaves out the process `except`.
 */
export async function findListener(
  port: number,
  except: number | undefined,
  procDir = '/proc',
): Promise<string | undefined> {
  const inodes = new Set(
    (
      await Promise.all(['tcp', 'tcp6'].map(async (table) => listeningInodes(join(procDir, 'net', table), port)))
    ).flat(),
  );
  if (inodes.size === 0) return undefined;
  for (const pid of await readdir(procDir)) {
    if (!/^\d+$/.test(pid) || Number(pid) === except) continue;
    if (!(await holdsOne(join(procDir, pid, 'fd'), inodes))) continue;
    const name = await readFile(join(procDir, pid, 'comm'), 'utf8').catch(() => 'a program that has ended');
    return `${name.trim()} (pid ${pid})`;
  }
  return undefined;
}

async function listeningInodes(path: string, port: number): Promise<readonly string[]> {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  const lines = (await readFile(path, 'utf8').catch(() => '')).split('\n').slice(1);
  return lines.flatMap((line) => {
    const [, local = '', , state, , , , , , inode = ''] = line.trim().split(/\s+/);
    return state === LISTEN && local.endsWith(`:${wanted}`) ? [inode] : [];
  });
}

/** A process may end meanwhile. */
async function holdsOne(folder: string, inodes: ReadonlySet<string>): Promise<boolean> {
  const links = await readdir(folder).catch(() => []);
  const targets = await Promise.all(links.map(async (link) => readlink(join(folder, link)).catch(() => '')));
  return targets.some((target) => inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? ''));
}
