import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { exec } from '../../../base/exec.ts';
import { findOtherFolders } from '../../../install/host/runtime-folders.ts';
import type { NodeProblem } from '../../../model/node-report.ts';
import { EXECUTABLE_NAMES } from '../../../install/places.ts';
import type { PlacedRemark } from '../lint/placed-remark.ts';
import { lintSource } from '../lint/lint-source.ts';
import type { ConfFile } from './conf-files.ts';
import type { Sources } from './sources.ts';

export interface ProgramFile {
  readonly name: string;
  /** Undefined when no folder has it. */
  readonly path: string | undefined;
  readonly isExecutable: boolean;
  /** The version that a program of netplug reports; undefined for other programs. */
  readonly version: string | undefined;
}

export interface ConfigFacts {
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** In the order in which runtimes read them. */
  readonly files: readonly ConfFile[];
  /** Remarks of `lint` on the files that name netplug. */
  readonly remarks: readonly PlacedRemark[];
  /** Programs that those files name. */
  readonly programs: readonly ProgramFile[];
  /** Faults of folders that the runtime does not use. */
  readonly otherFolders: readonly NodeProblem[];
  readonly hostname: string;
  /** The name under which the agent registered this node; undefined without an agent. */
  readonly registeredName: string | undefined;
}

export async function gatherConfig({ context, places, confFiles }: Sources, signal: AbortSignal): Promise<ConfigFacts> {
  const { confDir, binDirs } = places;
  const files = await confFiles();
  const ours = files.filter(({ isOurs }) => isOurs);
  const names = new Set(ours.flatMap(({ programs }) => programs));
  // Both start it for calls that the agent does not answer.
  if (names.has('netplug') || names.has('netplug-ipam')) names.add('netplug-standalone');
  return {
    confDir,
    binDirs,
    files,
    remarks: ours.flatMap(({ path, text = '' }) => lintSource({ name: path, text })),
    programs: await Promise.all([...names].map(async (name) => findProgram(name, binDirs, signal))),
    otherFolders: await findOtherFolders(context.ports.host.procDir, { confDir, binDir: binDirs[0] ?? '' }),
    hostname: context.ports.hostname,
    registeredName: context.ports.readRegisteredName(),
  };
}

async function findProgram(name: string, folders: readonly string[], signal: AbortSignal): Promise<ProgramFile> {
  for (const path of folders.map((folder) => join(folder, name))) {
    if (!(await may(path, constants.F_OK))) continue;
    const isExecutable = await may(path, constants.X_OK);
    const isOurs = EXECUTABLE_NAMES.some((own) => own === name);
    return { name, path, isExecutable, version: isOurs && isExecutable ? await askVersion(path, signal) : undefined };
  }
  return { name, path: undefined, isExecutable: false, version: undefined };
}

/** Returns undefined without a version in the answer. Outside a CNI call the plugins only print name and version. */
async function askVersion(path: string, signal: AbortSignal): Promise<string | undefined> {
  const answer = await exec(path, [], { env: {}, signal }).catch(() => undefined);
  return /^netplug\S* (\S+): a CNI plugin/m.exec(answer?.stderr ?? '')?.[1];
}

async function may(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}
