import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ownValue } from '../../base/own-value.ts';
import { errnoOf, isNetplugError, NetplugError } from '../../base/errors.ts';
import type { DocumentSource } from './documents.ts';
import type { Context } from './ports.ts';

export interface FileChoice {
  /** Files, folders, or `-` for standard input. */
  readonly paths: readonly string[];
  readonly folders: 'recursive' | 'flat';
}

/** Extensions of the files that are read from a folder. */
const RESOURCE_ENDINGS: readonly string[] = ['.yaml', '.yml', '.json'];
export const LINT_ENDINGS: readonly string[] = [...RESOURCE_ENDINGS, '.conf', '.conflist'];

/** A file, or why it cannot be read. `isFound` is true for files found in a folder, false for those given by name. */
export type Input =
  | (DocumentSource & { readonly isFound: boolean })
  | { readonly name: string; readonly isFound: true; readonly failure: NetplugError };

/**
 * Reads the given files, and those of folders in the order of their names; `-` is standard input.
 * @throws cli/usage for an unreadable file, and for a folder without files of these extensions
 */
export async function readInputs(
  context: Context,
  choice: FileChoice,
  endings: readonly string[] = RESOURCE_ENDINGS,
): Promise<readonly DocumentSource[]> {
  return (await tryInputs(context, choice, endings)).map((input) => {
    if ('failure' in input) throw input.failure;
    return input;
  });
}

/** Reads like `readInputs`, but returns the failure of an unreadable file in a folder. @throws cli/usage */
export async function tryInputs(
  { io, signal }: Context,
  { paths, folders }: FileChoice,
  endings: readonly string[],
): Promise<readonly Input[]> {
  const inputs: Input[] = [];
  for (const path of paths) {
    signal.throwIfAborted();
    if (path === '-') {
      if (io.isTty) io.stderr('Reading from standard input until end of file\n');
      inputs.push({ name: 'standard input', text: await io.stdin(signal), isFound: false });
    } else if (await isFolder(path)) {
      for (const file of await filesIn(path, folders, endings)) {
        signal.throwIfAborted();
        inputs.push(await readFound(file));
      }
    } else inputs.push({ ...(await readSource(path)), isFound: false });
  }
  return inputs;
}

async function readFound(name: string): Promise<Input> {
  try {
    return { ...(await readSource(name)), isFound: true };
  } catch (cause) {
    if (!isNetplugError(cause, 'cli/usage')) throw cause;
    return { name, isFound: true, failure: cause };
  }
}

/** @throws cli/usage */
export async function readSource(file: string): Promise<DocumentSource> {
  try {
    return { name: file, text: await readFile(file, 'utf8') };
  } catch (cause) {
    throw unreadable(file, cause);
  }
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (cause) {
    throw unreadable(path, cause, 'Name a file, a folder, or "-" for standard input');
  }
}

async function filesIn(path: string, folders: FileChoice['folders'], endings: readonly string[]): Promise<string[]> {
  try {
    const entries = await readdir(path, { recursive: folders === 'recursive', withFileTypes: true });
    const files = entries
      .filter((entry) => !entry.isDirectory() && endings.some((ending) => entry.name.endsWith(ending)))
      .map(({ parentPath, name }) => join(parentPath, name));
    if (files.length > 0) return files.sort();
  } catch (cause) {
    throw unreadable(path, cause, 'Name a folder that can be read');
  }
  throw new NetplugError('cli/usage', `Cannot find a file in folder "${path}": none ends in ${endings.join(', ')}`, {
    hint: 'Give another folder or the files themselves, or read subfolders with --recursive',
  });
}

function unreadable(path: string, cause: unknown, hint = 'Name a file that can be read'): NetplugError {
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file or folder',
    EACCES: 'permission is denied',
    EISDIR: 'it is a folder',
  };
  const errno = errnoOf(cause);
  return new NetplugError(
    'cli/usage',
    `Cannot read "${path}": ${ownValue(reasons, errno ?? '') ?? errno ?? String(cause)}`,
    {
      hint,
      cause,
    },
  );
}
