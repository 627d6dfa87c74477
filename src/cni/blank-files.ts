import { constants } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, timeLimit } from '../base/clock.ts';
import { type Address, formatAddress } from '../net/address.ts';
import { openHostLocalFile, takenAddresses } from './host-local-files.ts';

const LOCK = { file: 'lock', retryMs: 20, limitMs: 10_000 } as const;

/**
 * Removes files of host-local that are blank since before the boot: the power failed before their content was on the disk, so they
 * name no attachment, and no DEL removes them. Takes the lock of host-local, for which it waits up to 10 s. Returns the addresses.
 * @throws an error when the lock is not free
 */
export async function freeBlankFiles(
  folder: string,
  ports: { readonly clock: Clock; readonly bootedAtMs: () => number; readonly tryLock: (fd: number) => boolean },
  signal: AbortSignal,
): Promise<readonly Address[]> {
  const bootedAtMs = ports.bootedAtMs();
  if ((await listBlank(folder, bootedAtMs)).length === 0) return [];
  await using lock = await open(
    join(folder, LOCK.file),
    constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW,
    0o600,
  );
  using limit = timeLimit(LOCK.limitMs);
  const waiting = AbortSignal.any([signal, limit.signal]);
  while (!ports.tryLock(lock.fd)) await ports.clock.sleep(LOCK.retryMs, waiting);
  const blank = await listBlank(folder, bootedAtMs);
  for (const address of blank) await rm(join(folder, formatAddress(address)), { force: true });
  return blank;
}

async function listBlank(folder: string, bootedAtMs: number): Promise<readonly Address[]> {
  const blank: Address[] = [];
  for (const address of await takenAddresses(folder)) {
    await using file = await openHostLocalFile(join(folder, formatAddress(address)));
    if (file === undefined) continue;
    const { mtimeMs } = await file.stat();
    // What was allocated and never written reads as zeros.
    if (mtimeMs < bootedAtMs && /^[\s\0]*$/.test(await file.readFile('utf8'))) blank.push(address);
  }
  return blank;
}
