import { lstat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoOf } from '../../base/errors.ts';
import { onFile } from './install-errors.ts';
import { removeFile, sweep } from './install-files.ts';
import type { UninstallOptions } from './install-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, EXECUTABLE_NAMES, KUBECONFIG_NAME } from './install-places.ts';
import { type RecordedFile, readRecord, recordPath, writeRecord } from './install-record.ts';
import { openReport } from './install-report.ts';
import type { Context, Status } from '../ports.ts';
import { purge } from './uninstall-purge.ts';

/** A file to remove, with every content it may have and still be ours. */
interface Target {
  readonly kind: RecordedFile['kind'];
  readonly path: string;
  readonly sha256s: readonly string[];
  /** Its place in the record. */
  readonly recordedPath: string;
}

/** The runtime stops using the plugin before the plugin goes; within a kind, what was installed last goes first. */
const ORDER: readonly RecordedFile['kind'][] = ['conflist', 'kubeconfig', 'executable'];

const HINT = 'the datastore is as before; "netplugctl ipam check --fix" frees addresses that pods no longer use\n';

/**
 * Takes what `install` put on this node away again, as far as it is still as it was put there; nothing there is fine.
 * Status 1 when something is left. The datastore is not touched.
 */
export async function uninstall(context: Context, options: UninstallOptions): Promise<Status> {
  using report = openReport(context.io, options.output);
  const { stateDir } = context.ports.machine;
  const record = await readRecord(stateDir, report);
  const targets = record === undefined ? await withoutRecord(options) : targetsOf(record, options);
  const left: Target[] = [];
  let removed = 0;
  for (const target of targets) {
    const { kind, path, sha256s } = target;
    const outcome = await removeFile(path, { sha256s, changed: options.changed }, context.signal);
    if (outcome === 'removed') {
      report.step({ kind, subject: path, done: 'removed' });
      removed += 1;
    }
    if (outcome !== 'changed') continue;
    left.push(target);
    const effect = kind === 'conflist' ? ', and runtimes go on using it' : '';
    report.warn(`${kind} "${path}" is left${effect}: ${leftBecause(record)}; --force removes it too`);
  }
  for (const folder of new Set(targets.map(({ path }) => dirname(path)))) await sweep(folder, Infinity);
  if (record !== undefined) {
    const isDone = ({ path }: RecordedFile): boolean =>
      targets.some(({ recordedPath }) => recordedPath === path) &&
      !left.some(({ recordedPath }) => recordedPath === path);
    await writeRecord(
      stateDir,
      record.filter((file) => !isDone(file)),
    );
    if (record.every(isDone)) report.step({ kind: 'record', subject: recordPath(stateDir), done: 'removed' });
  }
  const isPurged = options.extent === 'files' || (await purge(context, report));
  if (options.output === 'table')
    context.io.stdout(removed + left.length === 0 ? `no file was installed\n${HINT}` : HINT);
  return left.length === 0 && isPurged ? 0 : 1;
}

function leftBecause(record: readonly RecordedFile[] | undefined): string {
  return record === undefined
    ? 'no record says that netplug put it there'
    : 'it was changed since netplug put it there';
}

/** In a folder that is named, what was put there; when that is nothing, the folder is one that was elsewhere then. */
function targetsOf(record: readonly RecordedFile[], { binDir, confDir }: UninstallOptions): readonly Target[] {
  return ORDER.flatMap((kind) => {
    const folder = kind === 'executable' ? binDir : confDir;
    const files = record.filter((file) => file.kind === kind).reverse();
    const there = files.filter(({ path }) => folder === undefined || dirname(path) === folder);
    const meant = there.length > 0 ? there : files;
    return [...new Set(meant.map(({ path }) => path))].map((recordedPath) => ({
      kind,
      path: folder === undefined ? recordedPath : join(folder, basename(recordedPath)),
      sha256s: files.filter(({ path }) => path === recordedPath).map(({ sha256 }) => sha256),
      recordedPath,
    }));
  });
}

/** What has our names in the folders; nobody knows whether it is ours. */
async function withoutRecord({ binDir = BIN_DIR, confDir = CONF_DIR }: UninstallOptions): Promise<readonly Target[]> {
  const named = [
    { kind: 'conflist', path: join(confDir, CONF_NAME) },
    { kind: 'kubeconfig', path: join(confDir, KUBECONFIG_NAME) },
    ...EXECUTABLE_NAMES.toReversed().map((name) => ({ kind: 'executable', path: join(binDir, name) }) as const),
  ] as const;
  const targets: Target[] = [];
  for (const { kind, path } of named) {
    const isThere = await onFile('read', path, async () => lstat(path).then(() => true, isMissing));
    if (isThere) targets.push({ kind, path, sha256s: [], recordedPath: path });
  }
  return targets;
}

function isMissing(cause: unknown): false {
  if (errnoOf(cause) !== 'ENOENT' && errnoOf(cause) !== 'ENOTDIR') throw cause;
  return false;
}
