import { lstat, rmdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf } from '../base/errors.ts';
import { onFile } from './on-file.ts';

/** Errors of folders that stay: those that are not empty, and mounts. */
const KEPT = ['ENOTEMPTY', 'EEXIST', 'EBUSY', 'ENOTDIR'];

/** Returns the missing folders of the paths, parents first. */
export async function missingFolders(paths: readonly string[]): Promise<readonly string[]> {
  const missing = new Set<string>();
  for (const path of paths) {
    const chain: string[] = [];
    for (let folder = path; !(await isThere(folder)); folder = dirname(folder)) chain.unshift(folder);
    for (const folder of chain) missing.add(folder);
  }
  return [...missing];
}

/** Removes the empty folders, children first. Returns those that stay. */
export async function removeEmptyFolders(folders: readonly string[]): Promise<readonly string[]> {
  const stay: string[] = [];
  for (const folder of folders.toReversed()) {
    await onFile('remove', folder, async () => rmdir(folder)).catch((cause: unknown) => {
      const errno = errnoOf(cause instanceof Error ? cause.cause : cause);
      if (KEPT.includes(errno ?? '')) stay.unshift(folder);
      else if (errno !== 'ENOENT') throw cause;
    });
  }
  return stay;
}

async function isThere(folder: string): Promise<boolean> {
  return onFile('read', folder, async () =>
    lstat(folder).then(
      () => true,
      (cause: unknown) => {
        if (errnoOf(cause) !== 'ENOENT') throw cause;
        return false;
      },
    ),
  );
}
