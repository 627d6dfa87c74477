import { lstat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { onFile } from '../../../install/on-file.ts';
import { removeFile, sweep } from '../../../install/files.ts';
import { removeEmptyFolders } from '../../../install/folders.ts';
import type { UninstallOptions } from './install-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, EXECUTABLE_NAMES, KUBECONFIG_NAME } from '../../../install/places.ts';
import { type InstallRecord, type RecordedFile, readRecord, recordPath, writeRecord } from '../../../install/record.ts';
import { openReport, REMOVED, type Report } from './install-report.ts';
import { findPods } from '../../../install/host/pod-links.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { readRegistration } from './release-node.ts';
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
 * Takes what `install` put on this node away again, as far as it is still as it was put there; nothing there is fine. To
 * purge also takes away what plugin and agent made, and gives back what the node holds in the datastore. Status 1 when
 * something is left. @throws resource/in-use when pods or the agent are in the way of a purge
 */
export async function uninstall(context: Context, options: UninstallOptions): Promise<Status> {
  const { io, ports } = context;
  const { mode, extent } = options;
  using report = openReport(io, options.output);
  const pods = extent === 'everything' && options.pods === 'refuse' ? findPods(ports) : undefined;
  if (pods !== undefined && mode === 'carry-out') throw pods;
  const refused = pods === undefined ? 0 : reportError(io, pods, 'would be refused');
  const record = await readRecord(ports.machine.stateDir, report);
  const targets = record === undefined ? await withoutRecord(options) : targetsOf(record.files, options);
  const registration = extent === 'everything' ? await readRegistration(context) : undefined;
  const removal = new Removal(context, { options, record, report });

  // The runtime adds no pod from here on.
  await removal.remove(targets.filter(({ kind }) => kind === 'conflist'));
  const removeFiles = async (): Promise<void> => {
    await removal.remove(targets.filter(({ kind }) => kind !== 'conflist'));
    await removal.finish(targets);
  };
  let isPurged = true;
  if (registration === undefined) await removeFiles();
  else isPurged = await purge(context, { mode, registration, removeFiles }, report);

  if (options.output === 'table') {
    if (removal.isEmpty) io.stdout('no file was installed\n');
    if (extent === 'files' && mode === 'carry-out') io.stdout(HINT);
  }
  if (refused !== 0) return refused;
  return removal.left.length === 0 && isPurged ? 0 : 1;
}

/** The files of one installation, and what became of them. */
class Removal {
  readonly left: Target[] = [];
  readonly #context: Context;
  readonly #options: UninstallOptions;
  readonly #record: InstallRecord | undefined;
  readonly #report: Report;
  #removed = 0;

  constructor(
    context: Context,
    scene: { readonly options: UninstallOptions; readonly record: InstallRecord | undefined; readonly report: Report },
  ) {
    this.#context = context;
    this.#options = scene.options;
    this.#record = scene.record;
    this.#report = scene.report;
  }

  get isEmpty(): boolean {
    return this.#removed + this.left.length === 0;
  }

  async remove(targets: readonly Target[]): Promise<void> {
    const { changed, mode } = this.#options;
    for (const target of targets) {
      const { kind, path, sha256s } = target;
      const outcome = await removeFile(path, { sha256s, changed, mode }, this.#context.signal);
      if (outcome === 'removed') {
        this.#report.step({ kind, subject: path, done: REMOVED[mode] });
        this.#removed += 1;
      }
      if (outcome !== 'changed') continue;
      this.left.push(target);
      const effect = kind === 'conflist' ? ', and runtimes go on using it' : '';
      this.#report.warn(`${kind} "${path}" is left${effect}: ${leftBecause(this.#record)}; --force removes it too`);
    }
    if (mode === 'rehearse') return;
    for (const folder of new Set(targets.map(({ path }) => dirname(path)))) await sweep(folder, Infinity);
  }

  /** Removes folders that were made for the files, and what is removed from the record. */
  async finish(targets: readonly Target[]): Promise<void> {
    const { files, folders } = this.#record ?? { files: [], folders: [] };
    if (this.#record === undefined || this.#options.mode === 'rehearse') return;
    const { stateDir } = this.#context.ports.machine;
    const isDone = ({ path }: RecordedFile): boolean =>
      targets.some(({ recordedPath }) => recordedPath === path) &&
      !this.left.some(({ recordedPath }) => recordedPath === path);
    const isWhole = files.every(isDone);
    const stay = await removeEmptyFolders(folders);
    await writeRecord(stateDir, { files: files.filter((file) => !isDone(file)), folders: isWhole ? [] : stay });
    if (isWhole) this.#report.step({ kind: 'record', subject: recordPath(stateDir), done: REMOVED['carry-out'] });
  }
}

function leftBecause(record: InstallRecord | undefined): string {
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
    const isThere = await onFile('read', path, async () => (await lstat(path).catch(ignoreMissing)) !== undefined);
    if (isThere) targets.push({ kind, path, sha256s: [], recordedPath: path });
  }
  return targets;
}
