import { constants } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../base/errors.ts';

const LARGEST_BYTES = 4096;
const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/**
 * Reads a regular file of the folder; undefined when there is none. Follows no link, opens nothing that is no file, and never
 * waits for a writer: a read that does not end would hold one of the few threads of the process for good.
 */
export async function readPasswordFile(folder: string, name: string): Promise<string | undefined> {
  try {
    await using opened = await open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    // The folder as it was opened, whatever its path leads to by now.
    const path = join('/proc/self/fd', String(opened.fd), name);
    mustBeFile((await lstat(path)).isFile());
    await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    mustBeFile((await file.stat()).isFile());
    const { bytesRead, buffer } = await file.read(Buffer.alloc(LARGEST_BYTES + 1));
    if (bytesRead > LARGEST_BYTES) throw new Error(`it is larger than ${String(LARGEST_BYTES)} bytes`);
    return buffer.toString('utf8', 0, bytesRead);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}

function mustBeFile(isFile: boolean): void {
  if (!isFile) throw new Error('it is no regular file');
}
