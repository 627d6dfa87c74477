import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, link, lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ignoreMissing, isMissing } from './missing-file.ts';

const CHUNK_BYTES = 1_048_576;
const SUFFIX = '.netplug-tmp';

/** Contents and permissions of a regular file. */
export interface FileState {
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Permission bits, such as 0o600. */
  readonly mode: number;
}

/**
 * Every function here that changes a file writes a temporary file in the same folder, syncs it to disk and renames it
 * into place. A reader sees the old file or the new one, never a part of it, and a program that runs from the old file
 * is not disturbed. A function that fails leaves no temporary file.
 */

/** Writes the text with exactly these permissions, regardless of the umask. */
export async function writeFileAtomically(
  path: string,
  { text, mode }: { readonly text: string; readonly mode: number },
): Promise<void> {
  await pipeFileAtomically(path, [Buffer.from(text)], { mode, ifExists: 'replace' });
}

/** The same, but leaves a file alone that is so already: a full disk then does no harm. */
export async function keepFile(path: string, wanted: { readonly text: string; readonly mode: number }): Promise<void> {
  const [before, text] = [await lstat(path).catch(ignoreMissing), await readFile(path, 'utf8').catch(ignoreMissing)];
  if (before?.isFile() === true && (before.mode & 0o7777) === wanted.mode && text === wanted.text) return;
  await writeFileAtomically(path, wanted);
}

/** Writes the bytes of the source. With `ifExists: 'refuse'` an existing file is the system's error EEXIST. */
export async function pipeFileAtomically(
  path: string,
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { mode, ifExists }: { readonly mode: number; readonly ifExists: 'replace' | 'refuse' },
): Promise<void> {
  const put = ifExists === 'replace' ? rename : link;
  await replaceFile(
    path,
    async (temporary) => {
      await using file = await open(temporary, 'wx', mode);
      for await (const chunk of source) await file.writeFile(chunk);
      await file.chmod(mode);
      await file.sync();
    },
    put,
  );
}

/**
 * Copies the contents and returns the SHA-256 of the bytes read. Calls `check` with the path of the complete copy before
 * it replaces the target; the target stays as it is when that throws.
 */
export async function copyFileAtomically(
  source: string,
  target: string,
  {
    mode,
    check,
    signal,
  }: {
    readonly mode: number;
    readonly check?: ((copy: string) => Promise<void>) | undefined;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  const make = async (temporary: string): Promise<string> => {
    await using from = await open(source, 'r');
    await using to = await open(temporary, 'wx', mode);
    const digest = createHash('sha256');
    for await (const chunk of chunksOf(from, signal)) {
      digest.update(chunk);
      await to.writeFile(chunk);
    }
    await to.chmod(mode);
    await to.sync();
    return digest.digest('hex');
  };
  return replaceFile(target, make, async (temporary, path) => {
    await check?.(temporary);
    await rename(temporary, path);
  });
}

/** Makes `target` a second name of `existing`, which must be on the same file system. */
export async function linkFileAtomically(existing: string, target: string): Promise<void> {
  await replaceFile(target, async (temporary) => link(existing, temporary));
}

/** Returns the state of the file; undefined when the path is missing or not a regular file. */
export async function readFileState(path: string, signal: AbortSignal): Promise<FileState | undefined> {
  try {
    const stat = await lstat(path);
    if (!stat.isFile()) return undefined;
    await using file = await open(path, 'r');
    const digest = createHash('sha256');
    for await (const chunk of chunksOf(file, signal)) digest.update(chunk);
    return { sha256: digest.digest('hex'), sizeBytes: stat.size, mode: stat.mode & 0o7777 };
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw cause;
  }
}

/** Returns the paths of temporary files that killed processes left in the folder before the given time. */
export async function listAbandoned(folder: string, beforeMs: number): Promise<readonly string[]> {
  const abandoned: string[] = [];
  for (const name of await readdir(folder)) {
    if (!name.startsWith('.') || !name.endsWith(SUFFIX)) continue;
    const path = join(folder, name);
    const stat = await lstat(path).catch(ignoreMissing);
    if (stat !== undefined && stat.isFile() && stat.mtimeMs < beforeMs) abandoned.push(path);
  }
  return abandoned;
}

/** Removes temporary files that killed writers of the file left. No other process may be writing it. */
export async function removeDrafts(path: string): Promise<void> {
  const abandoned = await listAbandoned(dirname(path), Infinity);
  const drafts = abandoned.filter((draft) => basename(draft).startsWith(`.${basename(path)}.`));
  for (const draft of drafts) await rm(draft, { force: true });
}

/** Removes temporary files that killed processes left in the folder before the given time. */
export async function removeAbandoned(folder: string, beforeMs: number): Promise<void> {
  for (const path of await listAbandoned(folder, beforeMs)) await rm(path, { force: true });
}

async function replaceFile<T>(
  path: string,
  make: (temporary: string) => Promise<T>,
  put: (temporary: string, path: string) => Promise<void> = rename,
): Promise<T> {
  // Hidden and with an unknown extension, because runtimes read every configuration in their folder.
  const name = `.${basename(path)}.${randomBytes(6).toString('hex')}${SUFFIX}`;
  const temporary = join(dirname(path), name);
  try {
    const made = await make(temporary);
    await put(temporary, path);
    await syncFolder(dirname(path));
    return made;
  } finally {
    // The file also remains after a rename onto a hard link to itself, which the kernel ignores.
    await rm(temporary, { force: true });
  }
}

/** Syncs the names in a folder to disk, so that they survive a crash of the machine. */
async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

async function* chunksOf(file: FileHandle, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}
