import { type FileHandle, readdir, readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errnoOf } from '../../base/errors.ts';
import type { HostContext } from './host-ports.ts';

const PERIOD_MS = 20;

/** A process that holds the lock of a file. */
export interface LockHolder {
  readonly pid: number;
  /** Path of its executable, as in /proc. */
  readonly executable: string;
}

interface Inode {
  readonly dev: number;
  readonly ino: number;
}

/**
 * Returns the process that holds the lock of the file, as far as it is visible in the process namespace. The kernel's
 * list of locks names process and inode, and the process must have that very file open.
 */
export async function findLockHolder(file: Inode, procDir: string): Promise<LockHolder | undefined> {
  const locks = await readFile(join(procDir, 'locks'), 'utf8');
  for (const line of locks.split('\n')) {
    const [, pid, ino] = /^\d+: FLOCK +\S+ +WRITE +(\d+) +[^ ]+:(\d+) /.exec(line) ?? [];
    if (pid === undefined || pid === '0' || Number(ino) !== file.ino) continue;
    const holder = await findOpener(Number(pid), file, procDir);
    if (holder !== undefined) return holder;
  }
  return undefined;
}

/** Returns the process if it has that very file open. */
export async function findOpener(pid: number, file: Inode, procDir: string): Promise<LockHolder | undefined> {
  const folder = join(procDir, String(pid));
  if (!(await hasOpen(join(folder, 'fd'), file))) return undefined;
  const executable = await readlink(join(folder, 'exe')).catch(ignoreGone);
  return executable === undefined ? undefined : { pid, executable: executable.replace(/ \(deleted\)$/, '') };
}

/** Takes the lock of the file once no process holds it. Reports whether that was within the time. */
export async function isLockedWithin({ ports, signal }: HostContext, file: FileHandle, ms: number): Promise<boolean> {
  const untilMs = ports.clock.monotonic() + ms;
  while (!ports.tryLockFile(file.fd)) {
    if (ports.clock.monotonic() >= untilMs) return false;
    await ports.clock.sleep(PERIOD_MS, signal);
  }
  return true;
}

export function isNetplug({ executable }: LockHolder): boolean {
  return basename(executable).startsWith('netplug');
}

async function hasOpen(folder: string, { dev, ino }: Inode): Promise<boolean> {
  for (const name of (await readdir(folder).catch(ignoreGone)) ?? []) {
    const opened = await stat(join(folder, name)).catch(ignoreGone);
    if (opened?.dev === dev && opened.ino === ino) return true;
  }
  return false;
}

/** Ignores errors of a process that has exited meanwhile. */
function ignoreGone(cause: unknown): undefined {
  if (!['ENOENT', 'ESRCH', 'ENXIO'].includes(errnoOf(cause) ?? '')) throw cause;
}
