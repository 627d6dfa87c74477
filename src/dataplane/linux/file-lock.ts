import { loadAddon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

const EWOULDBLOCK = 11;

/**
 * Locks an open file for this process until it is closed or the process ends. Returns false when another process holds
 * the lock.
 * @throws kernel/failed
 */
export function tryLockFile(fd: number): boolean {
  const result = loadAddon().tryLock(fd);
  if (result !== 0 && result !== -EWOULDBLOCK) throw kernelFailure('lock a file', -result);
  return result === 0;
}
