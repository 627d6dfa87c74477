import { mkdir, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { hasFlags } from '../../../config/choose-connection.ts';
import { decideConflist, refuseForeign } from './install-conflist.ts';
import { onFile } from './install-errors.ts';
import { missingFolders } from './install-folders.ts';
import { planExecutables, planText, type PlannedFile, putFile, removeFile, sweep } from './install-files.ts';
import type { InstallOptions } from './install-options.ts';
import { planOrchAccess } from './install-kubeconfig.ts';
import { KUBECONFIG_NAME } from './install-places.ts';
import { type RecordedFile, readRecord, writeRecord } from './install-record.ts';
import { openReport, type Report } from './install-report.ts';
import type { Context, Status } from '../ports.ts';

/** No copy takes this long: what is older belongs to an installer that was killed. */
const ABANDONED_AFTER_MS = 600_000;

/**
 * Puts executables, kubeconfig and conflist on this node. Everything is read and checked before anything is written;
 * each file then changes at once or not at all, the conflist last, because the runtime uses it from that moment.
 * Repeating it changes nothing.
 */
export async function install(context: Context, options: InstallOptions): Promise<Status> {
  using report = openReport(context.io, options.output);
  refuseKubeconfigFlags(context);
  const planned = await planFiles(context, options, report);
  const { stateDir } = context.ports.machine;
  const { files: before, folders: made } = (await readRecord(stateDir, report)) ?? { files: [], folders: [] };
  const conflistPath = join(options.confDir, options.confName);
  if (!before.some(({ path }) => path === conflistPath)) await refuseForeign(conflistPath);
  const isPlanned = ({ path }: RecordedFile): boolean => planned.some((file) => file.path === path);
  const installed = planned.map(({ kind, path, sha256 }) => ({ kind, path, sha256 }));

  // An installation that is cut short is known as well: each file is then as it was or as it shall be.
  const missing = await missingFolders([options.binDir, options.confDir]);
  const folders = [...new Set([...made, ...missing])];
  await writeRecord(stateDir, { files: [...before, ...installed], folders });
  await prepareFolders(context, options);
  for (const [index, file] of planned.entries()) {
    const done = await putFile(file, planned.slice(0, index), context.signal);
    report.step({ kind: file.kind, subject: file.path, done });
  }
  const others = before.filter((file) => !isPlanned(file));
  const left = await removeSuperseded(context, { others, options, report });
  await writeRecord(stateDir, { files: [...left, ...installed], folders });
  await warnOfOthers(options, report);
  return 0;
}

async function planFiles(context: Context, options: InstallOptions, report: Report): Promise<readonly PlannedFile[]> {
  const { confDir, confName, binDir } = options;
  const { access, kubeconfig } = await planOrchAccess(context, options, report);
  const conflist = await decideConflist(context, { choice: options.conflist, orchAccess: access, report });
  return [
    ...(await planExecutables(binDir, sourceFolder(context, options), context.signal)),
    ...(kubeconfig === undefined ? [] : [planText('kubeconfig', join(confDir, KUBECONFIG_NAME), kubeconfig)]),
    planText('conflist', join(confDir, confName), conflist),
  ];
}

/** The plugin must not work with the credentials of the administrator. @throws cli/usage */
function refuseKubeconfigFlags({ kubeconfig }: Context): void {
  if (!hasFlags(kubeconfig)) return;
  throw new NetplugError('cli/usage', 'Cannot install with --kubeconfig or --context: they are for netplugctl itself', {
    hint: 'Set ORCHCONFIG to the kubeconfig of the plugin, or use the --orch-… flags',
  });
}

function sourceFolder({ ports }: Context, { from }: InstallOptions): string {
  if (from !== undefined) return from;
  const { executable } = ports.machine;
  if (executable !== undefined) return dirname(executable);
  throw new NetplugError('cli/usage', 'Cannot install the executables: this tool does not run from one', {
    hint: 'Build it, and name the folder with --from',
  });
}

async function prepareFolders({ ports, signal }: Context, { binDir, confDir }: InstallOptions): Promise<void> {
  for (const folder of [binDir, confDir]) {
    signal.throwIfAborted();
    await onFile('write', folder, async () => mkdir(folder, { recursive: true }));
    await sweep(folder, ports.clock.now() - ABANDONED_AFTER_MS);
  }
}

/** A conflist under an earlier name would go on being used beside the new one. */
async function removeSuperseded(
  { signal }: Context,
  { others, options, report }: { others: readonly RecordedFile[]; options: InstallOptions; report: Report },
): Promise<readonly RecordedFile[]> {
  const left: RecordedFile[] = [];
  for (const file of others) {
    const { kind, path: subject } = file;
    const sha256s = others.filter(({ path }) => path === subject).map(({ sha256 }) => sha256);
    const isSuperseded = kind === 'conflist' && dirname(subject) === options.confDir;
    const done = isSuperseded ? await removeFile(subject, { sha256s, changed: 'leave' }, signal) : ('changed' as const);
    if (done === 'removed') report.step({ kind, subject, done });
    if (done === 'changed') left.push(file);
    if (isSuperseded && done === 'changed') {
      report.warn(`the earlier conflist "${subject}" was changed since it was installed, and is left`);
    }
  }
  return left;
}

/** Runtimes use the configuration whose name comes first. */
async function warnOfOthers({ confDir, confName }: InstallOptions, report: Report): Promise<void> {
  const names = await onFile('read', confDir, async () => readdir(confDir));
  const [first] = names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();
  if (first === undefined || first === confName) return;
  report.warn(`"${join(confDir, first)}" comes before "${confName}": a runtime that takes one configuration takes it`);
}
