import { lstat, readFile, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  copyFileAtomically,
  type FileState,
  linkFileAtomically,
  listAbandoned,
  readFileState,
  removeAbandoned,
  writeFileAtomically,
} from '../base/atomic-file.ts';
import { sha256Of } from '../base/sha256.ts';
import { errnoOf, NetplugError } from '../base/errors.ts';
import { ignoreMissing } from '../base/missing-file.ts';
import type { Mode } from '../base/mode.ts';
import { entryDigests, mergeConflist } from './merge-conflist.ts';
import { onFile } from './on-file.ts';
import { EXECUTABLE_NAMES, PROVEN_NAME, STANDARD_PLUGINS } from './places.ts';
import type { Prove } from './prove-executable.ts';
import type { RecordedFile } from './record.ts';

/** A file to install on the node. */
export interface PlannedFile extends RecordedFile {
  readonly content:
    | { readonly from: 'text'; readonly text: string }
    | {
        readonly from: 'file';
        readonly source: string;
        /** Called with the path of the copy before it replaces the installed file. @throws what forbids that */
        readonly prove?: ((path: string) => Promise<void>) | undefined;
      };
  readonly mode: number;
}

export type Put = 'installed' | 'replaced' | 'unchanged';

const EXECUTABLE_MODE = 0o755;
const PRIVATE_MODE = 0o600;
/** Errors of file systems and policies that refuse hard links; the file is then copied. */
const NO_LINK = ['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'];

/** Plans a file that only root can read. */
export function planText(kind: RecordedFile['kind'], path: string, text: string): PlannedFile {
  return { kind, path, sha256: sha256Of(text), content: { from: 'text', text }, mode: PRIVATE_MODE };
}

/** Plans a conflist over the installed one, of which it keeps what other programs have added. `earlier` is what is recorded. */
export async function planConflist(
  path: string,
  rendered: string,
  earlier: readonly RecordedFile[],
): Promise<{ readonly planned: PlannedFile; readonly others: readonly string[] }> {
  const found = await onFile('read', path, async () => readFile(path, 'utf8').catch(ignoreMissing));
  const record = earlier.filter((each) => each.path === path);
  const { text, isInstalled, others } = mergeConflist(rendered, found, { record });
  const planned = planText('conflist', path, isInstalled && found !== undefined ? found : text);
  return { planned: { ...planned, entries: [...entryDigests(rendered)] }, others };
}

/**
 * Plans the executables from a folder: netplug's own, and the standard plugins that the folder has and the host lacks.
 * `prove` runs netplug-standalone before it replaces the installed one. @throws cli/usage
 */
export async function planExecutables(
  { binDir, folder, prove }: { readonly binDir: string; readonly folder: string; readonly prove?: Prove | undefined },
  signal: AbortSignal,
): Promise<readonly PlannedFile[]> {
  const planned: PlannedFile[] = [];
  for (const name of [...EXECUTABLE_NAMES, ...(await lackingPlugins(binDir, folder, true))]) {
    const source = join(folder, name);
    const state = await readSourceState(source, signal);
    planned.push({
      kind: 'executable',
      path: join(binDir, name),
      sha256: state.sha256,
      content: { from: 'file', source, ...(name === PROVEN_NAME ? { prove } : {}) },
      mode: EXECUTABLE_MODE,
    });
  }
  return planned;
}

/** Returns the standard plugins that neither folder has. */
export async function missingStandardPlugins(binDir: string, folder: string): Promise<readonly string[]> {
  return lackingPlugins(binDir, folder, false);
}

/** Plugins of the host are never replaced: other networks may need them as they are. */
async function lackingPlugins(binDir: string, folder: string, isInFolder: boolean): Promise<readonly string[]> {
  const lacking: string[] = [];
  for (const name of STANDARD_PLUGINS) {
    if (!(await isThere(join(binDir, name))) && (await isThere(join(folder, name))) === isInFolder) lacking.push(name);
  }
  return lacking;
}

async function isThere(path: string): Promise<boolean> {
  return onFile('read', path, async () => (await lstat(path).catch(ignoreMissing)) !== undefined);
}

/** Installs the file unless it is up to date. Links it to a file of `twins` (installed before) with equal content. */
export async function putFile(planned: PlannedFile, twins: readonly PlannedFile[], signal: AbortSignal): Promise<Put> {
  const { path, sha256, mode, content } = planned;
  return onFile('write', path, async () => {
    const before = await readFileState(path, signal);
    if (before?.sha256 === sha256 && before.mode === mode) return 'unchanged';
    if (content.from === 'text') {
      signal.throwIfAborted();
      await writeFileAtomically(path, { text: content.text, mode });
    } else {
      const twin = twins.find((each) => each.sha256 === sha256 && each.mode === mode);
      if (twin === undefined || !(await isLinked(twin.path, path))) await copy(content, planned, signal);
    }
    return before === undefined ? 'installed' : 'replaced';
  });
}

/** Removes the file if its checksum is recorded; a dry run only returns the outcome. */
export async function removeFile(
  path: string,
  {
    sha256s,
    changed,
    mode = 'apply',
  }: { readonly sha256s: readonly string[]; readonly changed: 'leave' | 'remove'; readonly mode?: Mode },
  signal: AbortSignal,
): Promise<'removed' | 'changed' | 'missing'> {
  return onFile('remove', path, async () => {
    const state = await readFileState(path, signal);
    if (state === undefined && (changed === 'leave' || mode === 'dry-run')) return 'missing';
    if (changed === 'leave' && state !== undefined && !sha256s.includes(state.sha256)) return 'changed';
    signal.throwIfAborted();
    if (mode === 'dry-run') return 'removed';
    return (await rm(path).then(() => 'removed' as const, ignoreMissing)) ?? 'missing';
  });
}

/** Reports whether the folder exists without temporary files of copies that began before the given time. */
export async function isSwept(folder: string, beforeMs: number): Promise<boolean> {
  const abandoned = await onFile('read', folder, async () => listAbandoned(folder, beforeMs).catch(ignoreMissing));
  return abandoned?.length === 0;
}

/** Removes temporary files of copies that began before the given time. */
export async function sweep(folder: string, beforeMs: number): Promise<void> {
  await onFile('remove', folder, async () => removeAbandoned(folder, beforeMs).catch(ignoreMissing));
}

async function readSourceState(source: string, signal: AbortSignal): Promise<FileState> {
  const real = await realpath(source).catch(() => source);
  const state = await onFile('read', source, async () => readFileState(real, signal));
  if (state !== undefined) return state;
  throw new NetplugError('cli/usage', `Cannot install "${source}": the file does not exist`, {
    hint: 'Pass the folder of the executables with --from',
  });
}

async function isLinked(existing: string, path: string): Promise<boolean> {
  try {
    await linkFileAtomically(existing, path);
    return true;
  } catch (cause) {
    if (!NO_LINK.includes(errnoOf(cause) ?? '')) throw cause;
    return false;
  }
}

async function copy(
  { source, prove: check }: Extract<PlannedFile['content'], { readonly from: 'file' }>,
  { path, mode, sha256 }: PlannedFile,
  signal: AbortSignal,
): Promise<void> {
  const copied = await copyFileAtomically(source, path, { mode, check, signal });
  if (copied === sha256) return;
  throw new NetplugError('install/failed', `Cannot install "${path}": "${source}" changed while it was copied`, {
    hint: 'Run the same command again',
  });
}
