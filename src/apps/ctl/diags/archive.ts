import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { pipeFileAtomically } from '../../../base/atomic-file.ts';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import { onFile } from '../../../install/on-file.ts';

export interface PackedFile {
  /** Path inside the archive. */
  readonly path: string;
  readonly text: string;
}

export interface ArchiveTarget {
  readonly path: string;
  readonly ifExists: 'replace' | 'refuse';
}

const PRIVATE_MODE = 0o600;
const REPRODUCIBLE = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner'];

/**
 * Writes the files as one tar archive, readable only by its owner. The write is atomic: after a failure the path is
 * unchanged. @throws install/failed when the archive cannot be written, cli/program-missing without tar
 */
export async function writeArchive(
  { folder, files }: { readonly folder: string; readonly files: readonly PackedFile[] },
  target: ArchiveTarget,
  signal: AbortSignal,
): Promise<void> {
  const place = tmpdir();
  await using stage = await onFile('write', place, async () => mkdtempDisposable(join(place, 'netplug-diags-')));
  await onFile('write', stage.path, async () => {
    for (const { path, text } of files) {
      const file = join(stage.path, folder, path);
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(file, text, { mode: PRIVATE_MODE });
    }
  });
  const { path, ifExists } = target;
  await onFile('write', path, async () =>
    pipeFileAtomically(path, pack(stage.path, folder, signal), { mode: PRIVATE_MODE, ifExists }),
  );
}

/** Yields the bytes of the compressed archive. */
async function* pack(stage: string, folder: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const args = [...REPRODUCIBLE, '--create', '--directory', stage, '--file', '-', folder];
  const tar = spawn('tar', args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
  const complaint = text(tar.stderr);
  const ended = once(tar, 'close').catch((cause: unknown): never => {
    throw errnoOf(cause) === 'ENOENT' ? tarMissing(cause) : cause;
  });
  // Awaited below, unless the consumer stops reading first.
  ended.catch(() => undefined);
  const packed = createGzip();
  const piped = pipeline(tar.stdout, packed);
  piped.catch(() => undefined);
  try {
    // A stream without an encoding yields buffers, which its type does not express.
    for await (const chunk of packed) yield chunk as Buffer;
    // tar may still be running after it has closed its standard output.
    const [status] = (await ended) as [number | null];
    if (status !== 0) {
      throw new NetplugError('install/failed', `Cannot pack the files: tar failed: ${(await complaint).trim()}`);
    }
  } catch (cause) {
    signal.throwIfAborted();
    await ended;
    throw cause;
  } finally {
    tar.kill();
  }
}

function tarMissing(cause: unknown): NetplugError {
  return new NetplugError('cli/program-missing', 'Cannot pack the files: the program "tar" is not installed', {
    hint: 'Install tar',
    cause,
  });
}
