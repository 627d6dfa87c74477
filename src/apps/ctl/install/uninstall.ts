import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { NetplugError } from '../../../base/errors.ts';
import { ignoreMissing } from '../../../base/missing-file.ts';
import { sha256Of } from '../../../base/sha256.ts';
import { removeFile, sweep } from '../../../install/files.ts';
import { removeEmptyFolders } from '../../../install/folders.ts';
import type { UninstallOptions } from './install-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME, EXECUTABLE_NAMES, KUBECONFIG_NAME } from '../../../install/places.ts';
import {
  agentRecordPath,
  type InstallRecord,
  type RecordedFile,
  readRecord,
  readRecordAt,
  recordPath,
  writeRecord,
  writeRecordAt,
} from '../../../install/record.ts';
import { listRuntimeRecords, podOf } from '../../../install/host/runtime-records.ts';
import { handleOf } from '../../../model/names.ts';
import { inspectConflist } from '../../../install/merge-conflist.ts';
import { onFile } from '../../../install/on-file.ts';
import { openReport, REMOVED, type Report } from './install-report.ts';
import { findPods } from '../../../install/host/pod-links.ts';
import type { Context, Status } from '../ports.ts';
import { reportError } from '../../../base/report-error.ts';
import { readRegistration } from './release-node.ts';
import { isThere, purge } from './uninstall-purge.ts';

/** A file to remove, with the checksums of every content that netplug installed. */
interface Target {
  readonly kind: RecordedFile['kind'];
  readonly path: string;
  readonly sha256s: readonly string[];
  /** Its path in the record. */
  readonly recordedPath: string;
}

/** The conflist first, so that the runtime stops using the plugin; within a kind, files installed last go first. */
const ORDER: readonly RecordedFile['kind'][] = ['conflist', 'kubeconfig', 'token', 'certificate', 'executable'];

const HINT = 'the datastore is unchanged; "netplugctl ipam check --fix" releases addresses of removed pods\n';

/**
 * Removes unchanged files that `node install` put on this node. A purge also removes what plugin and agent created, and the
 * records of the node in the datastore. Idempotent. Returns 1 when something is left. @throws resource/in-use when pods
 * or the agent prevent a purge
 */
export async function uninstall(context: Context, options: UninstallOptions): Promise<Status> {
  const { io, ports } = context;
  const { mode, extent } = options;
  using report = openReport(io, options.output);
  const pods = extent === 'everything' && options.pods === 'refuse' ? await findNamedPods(context) : undefined;
  if (pods !== undefined && mode === 'apply') throw pods;
  const refused = pods === undefined ? 0 : reportError(io, pods, 'would be refused');
  const { stateDir } = ports.machine;
  const record = await readRecord(stateDir, report);
  const byAgent = (await readRecordAt(agentRecordPath(stateDir), report)) ?? { files: [], folders: [] };
  const recorded = [...(record?.files ?? []), ...byAgent.files];
  const targets =
    record === undefined && byAgent.files.length === 0 ? await withoutRecord(options) : targetsOf(recorded, options);
  const registration = extent === 'everything' ? await readRegistration(context) : undefined;
  const removal = new Removal(context, { options, record, byAgent, report });

  // From here on the runtime adds no pods.
  await removal.remove(targets.filter(({ kind }) => kind === 'conflist'));
  const removeFiles = async (): Promise<void> => {
    await removal.remove(targets.filter(({ kind }) => kind !== 'conflist'));
    await removal.finish(targets);
  };
  let isPurged = true;
  if (registration === undefined) await removeFiles();
  else isPurged = await purge(context, { mode, binDir: options.binDir ?? BIN_DIR, registration, removeFiles }, report);

  if (options.output === 'table') {
    if (removal.isEmpty) io.stdout('no file was installed\n');
    if (extent === 'files' && mode === 'apply') io.stdout(HINT);
  }
  if (refused !== 0) return refused;
  return removal.left.length === 0 && isPurged ? 0 : 1;
}

/** Finds pods as `findPods` does, with their names from the records of the runtime. */
async function findNamedPods({ ports }: Context): Promise<NetplugError | undefined> {
  const records = await listRuntimeRecords(ports.machine.resultsDir);
  const pods = new Map(records.map((record) => [handleOf(record), podOf(record)]));
  return findPods(ports, (owner) => pods.get(handleOf(owner)));
}

interface RemovalScene {
  readonly options: UninstallOptions;
  readonly record: InstallRecord | undefined;
  /** The files that the agent has written. */
  readonly byAgent: InstallRecord;
  readonly report: Report;
}

/** Removes the files of an installation and counts what is left. */
class Removal {
  readonly left: Target[] = [];
  readonly #context: Context;
  readonly #scene: RemovalScene;
  #removed = 0;

  constructor(context: Context, scene: RemovalScene) {
    this.#context = context;
    this.#scene = scene;
  }

  get isEmpty(): boolean {
    return this.#removed + this.left.length === 0;
  }

  async remove(targets: readonly Target[]): Promise<void> {
    const { options, record, byAgent, report } = this.#scene;
    const recorded = [...(record?.files ?? []), ...byAgent.files];
    const { changed, mode } = options;
    const why =
      record === undefined ? 'no record shows that netplug installed it' : 'it was changed after netplug installed it';
    const places = new Set<string>();
    for (const target of targets) {
      const { kind, path, sha256s } = target;
      const place = await placeOf(path, this.#context);
      places.add(dirname(place));
      const extended = kind === 'conflist' ? await readExtended({ ...target, path: place }, recorded) : NOT_EXTENDED;
      const contents = [...sha256s, ...extended.sha256s];
      const outcome = await removeFile(place, { sha256s: contents, changed, mode }, this.#context.signal);
      if (outcome === 'removed') {
        report.step({ kind, subject: path, done: REMOVED[mode] });
        this.#removed += 1;
        if (extended.others.length > 0) report.warn(lostWith(path, extended.others));
      }
      if (outcome !== 'changed') continue;
      this.left.push(target);
      const effect = kind === 'conflist' ? ', and runtimes still use it' : '';
      report.warn(`${kind} "${path}" was not removed${effect}: ${why}; use --force to remove it`);
    }
    if (mode === 'dry-run') return;
    for (const folder of places) await sweep(folder, Infinity);
  }

  /** Removes folders that were created for the files, and updates the record. */
  async finish(targets: readonly Target[]): Promise<void> {
    const { options, record, byAgent, report } = this.#scene;
    if (options.mode === 'dry-run') return;
    const { stateDir } = this.#context.ports.machine;
    const isDone = ({ path }: RecordedFile): boolean =>
      targets.some(({ recordedPath }) => recordedPath === path) &&
      !this.left.some(({ recordedPath }) => recordedPath === path);
    const left = byAgent.files.filter((file) => !isDone(file));
    await writeRecordAt(agentRecordPath(stateDir), { files: left, folders: [] });
    if (record === undefined) return;
    const { files, folders } = record;
    const isAllDone = files.every(isDone);
    const stay = await removeEmptyFolders(folders);
    await writeRecord(stateDir, { files: files.filter((file) => !isDone(file)), folders: isAllDone ? [] : stay });
    if (isAllDone) report.step({ kind: 'record', subject: recordPath(stateDir), done: REMOVED.apply });
  }
}

/** Returns where the file is: a container need not see the folder of the host, to which the root of process 1 leads. */
async function placeOf(path: string, { ports }: Context): Promise<string> {
  const onHost = join(ports.host.procDir, '1/root', path);
  return !(await isThere(path)) && (await isThere(onHost).catch(() => false)) ? onHost : path;
}

/** A conflist as other programs have extended it. */
interface Extended {
  /** That of its content, when everything of netplug in it is as recorded. */
  readonly sha256s: readonly string[];
  /** Types of the entries of other programs. */
  readonly others: readonly string[];
}

const NOT_EXTENDED: Extended = { sha256s: [], others: [] };

async function readExtended({ path, recordedPath }: Target, recorded: readonly RecordedFile[]): Promise<Extended> {
  const text = await onFile('read', path, async () => readFile(path, 'utf8').catch(ignoreMissing));
  if (text === undefined) return NOT_EXTENDED;
  const ofPath = recorded.filter((each) => each.path === recordedPath);
  const { isUnchanged, others } = inspectConflist(text, ofPath);
  return { sha256s: isUnchanged ? [sha256Of(text)] : [], others };
}

/** They are chained plugins: without one before them, a list of them would fail every pod. */
function lostWith(path: string, types: readonly string[]): string {
  const names = types.map((type) => `"${type}"`).join(', ');
  return `conflist "${path}" also had ${names} of other programs, which cannot be called without netplug: they belong into the list of the next network, where their installers put them`;
}

/** Returns the recorded files in the given folders. A folder without recorded files has moved since the installation. */
function targetsOf(record: readonly RecordedFile[], { binDir, confDir }: UninstallOptions): readonly Target[] {
  return ORDER.flatMap((kind) => {
    const folder = {
      executable: binDir,
      conflist: confDir,
      kubeconfig: confDir,
      token: undefined,
      certificate: undefined,
    }[kind];
    const files = record.filter((file) => file.kind === kind).reverse();
    const there = files.filter(({ path }) => folder === undefined || dirname(path) === folder);
    const chosen = there.length > 0 ? there : files;
    return [...new Set(chosen.map(({ path }) => path))].map((recordedPath) => ({
      kind,
      path: folder === undefined ? recordedPath : join(folder, basename(recordedPath)),
      sha256s: files.filter(({ path }) => path === recordedPath).map(({ sha256 }) => sha256),
      recordedPath,
    }));
  });
}

/** Returns files with the names of netplug's files; without a record, netplug may not have installed them. */
async function withoutRecord({ binDir = BIN_DIR, confDir = CONF_DIR }: UninstallOptions): Promise<readonly Target[]> {
  const named = [
    { kind: 'conflist', path: join(confDir, CONF_NAME) },
    { kind: 'kubeconfig', path: join(confDir, KUBECONFIG_NAME) },
    ...EXECUTABLE_NAMES.toReversed().map((name) => ({ kind: 'executable', path: join(binDir, name) }) as const),
  ] as const;
  const targets: Target[] = [];
  for (const { kind, path } of named) {
    if (await isThere(path)) targets.push({ kind, path, sha256s: [], recordedPath: path });
  }
  return targets;
}
