import { readFile, stat } from 'node:fs/promises';
import { errnoOf, reasonOf } from '../base/errors.ts';
import { accessInvalid } from './access.ts';

/** The text of a file that a field names. @throws store/config-invalid naming field, file and reason */
export async function readNamedFile(path: string, field: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw accessInvalid(
      `${field} "${path}" cannot be read (${reasonOf(cause)})`,
      `Correct ${field}, or the file`,
      cause,
    );
  }
}

/** Changes whenever one of the files does, also when a link to it is turned elsewhere. */
export async function fingerprint(files: readonly string[]): Promise<string> {
  const marks = await Promise.all(
    files.map(async (file) => {
      try {
        const { ino, size, mtimeMs } = await stat(file);
        return `${String(ino)}:${String(size)}:${String(mtimeMs)}`;
      } catch (cause) {
        // A missing file counts as changed when it exists again.
        return errnoOf(cause) ?? 'unreadable';
      }
    }),
  );
  return marks.join(' ');
}
