import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readFileState } from '../base/atomic-file.ts';
import type { Actor } from '../plans/carry-out.ts';
import type { Plan } from '../plans/plan.ts';
import { isSwept, type PlannedFile, putFile, removeFile, sweep } from './files.ts';
import { missingFolders } from './folders.ts';
import { onFile } from './on-file.ts';
import { type InstallRecord, type RecordedFile, readRecord, writeRecord } from './record.ts';

/** A temporary file older than this belongs to a killed installation, since a copy takes less time. */
const ABANDONED_AFTER_MS = 600_000;

/** A step of an installation. It omits the content of files, which includes a credential. */
export type InstallAction =
  | { readonly act: 'prepare' }
  | { readonly act: 'put'; readonly file: RecordedFile }
  | { readonly act: 'finish' };

/** The desired state of a node. */
export interface PlannedInstallation {
  /** In the order of installation. */
  readonly files: readonly PlannedFile[];
  readonly binDir: string;
  /** Undefined when only executables are installed. */
  readonly confDir: string | undefined;
  readonly stateDir: string;
  /** The record of earlier installations. */
  readonly before: InstallRecord;
}

export interface InstallReport {
  readonly step: (step: { kind: RecordedFile['kind']; subject: string; done: string }) => void;
  readonly warn: (text: string) => void;
}

/** Plans an installation. The conflist comes last, because the runtime uses the plugin from then on. */
export function planInstallation({ files, binDir, confDir }: PlannedInstallation): Plan<InstallAction> {
  return {
    stages: [
      {
        title: 'Prepare the folders',
        steps: [{ kind: 'write', text: `create ${foldersOf(binDir, confDir)} if missing`, act: 'prepare' }],
      },
      {
        title: 'Install the files',
        steps: files.map((planned) => ({
          kind: 'write',
          text: `install ${planned.kind} "${planned.path}"`,
          act: 'put',
          file: recordOf(planned),
        })),
      },
      confDir === undefined
        ? { title: 'Record the files', steps: [{ kind: 'write', text: 'record the installed files', act: 'finish' }] }
        : {
            title: 'Remove superseded files',
            steps: [{ kind: 'write', text: `remove earlier conflists from "${confDir}"`, act: 'finish' }],
          },
    ],
    notes: [],
  };
}

/** Returns the actor of the steps. It replaces each file atomically. */
export function installActor(
  installation: PlannedInstallation,
  { report, now }: { readonly report: InstallReport; readonly now: () => number },
): Actor<InstallAction> {
  const { files, binDir, confDir, stateDir, before } = installation;
  const folderPaths = [binDir, ...(confDir === undefined ? [] : [confDir])];
  const installed = files.map(recordOf);
  const superseded = before.files.filter((file) => !files.some(({ path }) => path === file.path));
  const foldersToRecord = async (): Promise<readonly string[]> => [
    ...new Set([...before.folders, ...(await missingFolders(folderPaths))]),
  ];
  let folders: readonly string[] | undefined;
  return {
    inspect: async (step, signal) => {
      if (step.act === 'put') {
        const { path, sha256 } = step.file;
        const state = await onFile('read', path, async () => readFileState(path, signal));
        const { mode } = files.find((file) => file.path === path) ?? {};
        return state?.sha256 === sha256 && state.mode === mode ? 'after' : 'before';
      }
      if (step.act === 'prepare') {
        const areSwept = folderPaths.map(async (folder) => isSwept(folder, now() - ABANDONED_AFTER_MS));
        if ((await Promise.all(areSwept)).includes(false)) return 'before';
      }
      const recorded = (await readRecord(stateDir, report))?.files ?? [];
      const expected =
        step.act === 'prepare' ? installed : recorded.filter((file) => !isSuperseded(file, installation));
      const isThere = expected.every(({ path, sha256 }) =>
        recorded.some((file) => file.path === path && file.sha256 === sha256),
      );
      return isThere && (step.act === 'prepare' || expected.length === recorded.length) ? 'after' : 'before';
    },
    apply: async (step, signal) => {
      if (step.act === 'prepare') {
        // The record lists old and new checksums, so that uninstall also works after an interrupted installation.
        folders = await foldersToRecord();
        await writeRecord(stateDir, { files: [...before.files, ...installed], folders });
        for (const folder of folderPaths) {
          signal.throwIfAborted();
          await onFile('write', folder, async () => mkdir(folder, { recursive: true }));
          await sweep(folder, now() - ABANDONED_AFTER_MS);
        }
      } else if (step.act === 'put') {
        const index = files.findIndex(({ path }) => path === step.file.path);
        const file = files[index];
        if (file === undefined) return;
        const done = await putFile(file, files.slice(0, index), signal);
        report.step({ kind: file.kind, subject: file.path, done });
      } else {
        const left = await removeSuperseded(superseded, installation, { report, signal });
        await writeRecord(stateDir, { files: [...left, ...installed], folders: folders ?? before.folders });
      }
    },
  };
}

function recordOf({ kind, path, sha256, entries }: PlannedFile): RecordedFile {
  return { kind, path, sha256, ...(entries === undefined ? {} : { entries }) };
}

function foldersOf(binDir: string, confDir: string | undefined): string {
  return confDir === undefined ? `"${binDir}"` : `"${binDir}" and "${confDir}"`;
}

function isSuperseded({ kind, path, sha256 }: RecordedFile, { files, confDir }: PlannedInstallation): boolean {
  const planned = files.find((file) => file.path === path);
  if (planned !== undefined) return planned.sha256 !== sha256;
  return kind === 'conflist' && dirname(path) === confDir;
}

/** Removes earlier conflists, which the runtime would otherwise still use. Returns the files that stay. */
async function removeSuperseded(
  earlier: readonly RecordedFile[],
  installation: PlannedInstallation,
  { report, signal }: { readonly report: InstallReport; readonly signal: AbortSignal },
): Promise<readonly RecordedFile[]> {
  const left: RecordedFile[] = [];
  for (const file of earlier) {
    const { kind, path: subject } = file;
    const sha256s = earlier.filter(({ path }) => path === subject).map(({ sha256 }) => sha256);
    const isDoomed = isSuperseded(file, installation);
    const done = isDoomed ? await removeFile(subject, { sha256s, changed: 'leave' }, signal) : ('changed' as const);
    if (done === 'removed') report.step({ kind, subject, done });
    if (done === 'changed') left.push(file);
    if (isDoomed && done === 'changed') {
      report.warn(`the earlier conflist "${subject}" has changed since its installation, and is kept`);
    }
  }
  return left;
}
