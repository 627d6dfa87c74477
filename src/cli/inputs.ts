import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf, NetplugError } from '../base/errors.ts';
import type { Source } from './documents.ts';
import type { Context } from './ports.ts';

export interface FileChoice {
  /** Files, folders, or `-` for standard input. */
  readonly paths: readonly string[];
  readonly folders: 'recursive' | 'flat';
}

/** Of a folder, the files with these endings are read. */
const RESOURCE_ENDINGS: readonly string[] = ['.yaml', '.yml', '.json'];
export const LINT_ENDINGS: readonly string[] = [...RESOURCE_ENDINGS, '.conf', '.conflist'];

/**
 * The texts of the files named, those of a folder in the order of their names; `-` is standard input.
 * @throws cli/usage for what cannot be read, and for a folder without a file of ours
 */
export async function readInputs(
  { io, signal }: Context,
  { paths, folders }: FileChoice,
  endings: readonly string[] = RESOURCE_ENDINGS,
): Promise<readonly Source[]> {
  const sources: Source[] = [];
  for (const path of paths) {
    signal.throwIfAborted();
    if (path === '-') {
      if (io.isTty) io.stderr('Reading from standard input, up to an end of file\n');
      sources.push({ name: 'standard input', text: await io.stdin(signal) });
    } else {
      for (const file of await filesAt(path, folders, endings)) sources.push(await readSource(file));
    }
  }
  return sources;
}

/** @throws cli/usage */
export async function readSource(file: string): Promise<Source> {
  try {
    return { name: file, text: await readFile(file, 'utf8') };
  } catch (cause) {
    throw unreadable(file, cause);
  }
}

async function filesAt(path: string, folders: FileChoice['folders'], endings: readonly string[]): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: folders === 'recursive' });
    const files = names.filter((name) => endings.some((ending) => name.endsWith(ending))).sort();
    if (files.length > 0) return files.map((name) => join(path, name));
  } catch (cause) {
    throw unreadable(path, cause);
  }
  throw new NetplugError('cli/usage', `Cannot find a file in folder "${path}": none ends in ${endings.join(', ')}`, {
    hint: 'Name another folder, or the files themselves; of folders below, --recursive takes care',
  });
}

function unreadable(path: string, cause: unknown): NetplugError {
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file or folder',
    EACCES: 'permission is denied',
    EISDIR: 'it is a folder',
  };
  const errno = errnoOf(cause);
  return new NetplugError('cli/usage', `Cannot read "${path}": ${reasons[errno ?? ''] ?? errno ?? String(cause)}`, {
    hint: 'Name a file, a folder, or "-" for standard input',
    cause,
  });
}
