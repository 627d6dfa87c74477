import { readFile, realpath, stat } from 'node:fs/promises';
import { writeFileAtomically } from '../../../base/atomic-file.ts';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import type { DocumentSource } from '../documents.ts';

/** Replaces the file atomically, keeping permissions and links. Fails if the file has changed. @throws cli/usage */
export async function writeRepaired(
  { name, text }: DocumentSource,
  { readAs }: { readonly readAs: string },
): Promise<void> {
  try {
    const path = await realpath(name);
    const { mode } = await stat(path);
    if ((await readFile(path, 'utf8')) !== readAs) {
      throw new NetplugError('cli/usage', `Cannot fix "${name}": the file changed since it was read`, {
        hint: 'Run the command again',
      });
    }
    await writeFileAtomically(path, { text, mode: mode & 0o7777 });
  } catch (cause) {
    if (cause instanceof NetplugError) throw cause;
    throw new NetplugError('cli/usage', `Cannot fix "${name}": ${errnoOf(cause) ?? String(cause)}`, {
      hint: 'Make the file and its folder writable, or print the changes with --dry-run',
      cause,
    });
  }
}
