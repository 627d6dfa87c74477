import { dirname, join } from 'node:path';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import { CHAINED_TYPES } from '../../../config/lint-chain.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { isProgramName } from '../../../install/program-name.ts';
import { hasFlags } from '../../../config/connection-facts.ts';
import { findShadow, refuseForeign } from '../../../install/other-configurations.ts';
import { extendedBy } from '../../../install/conflist-faults.ts';
import {
  missingStandardPlugins,
  planConflist,
  planExecutables,
  planText,
  type PlannedFile,
} from '../../../install/files.ts';
import { problemSentence } from '../../../model/node-report.ts';
import type { InstallOptions, ConflistChoice } from './install-options.ts';
import { planOrchAccess } from './install-kubeconfig.ts';
import { KUBECONFIG_NAME, PROVEN_NAME } from '../../../install/places.ts';
import { proveExecutable } from '../../../install/prove-executable.ts';
import { agentRecordPath, type RecordedFile, readRecord, readRecordAt } from '../../../install/record.ts';
import { type InstallAction, installActor, planInstallation } from '../../../install/plan-installation.ts';
import { carryOut } from '../../../plans/carry-out.ts';
import type { Step } from '../../../plans/plan.ts';
import { executionOf, recordName, resumeIfSound, showPlan } from '../run-plan.ts';
import { findRemains, findRivalDevices } from '../probe/examine-node.ts';
import { openReport, type Report } from './install-report.ts';
import type { Context, Status } from '../ports.ts';
import { checkConflist } from '../../../install/check-conflist.ts';
import { type ConflistAccess, renderConflist } from '../../../install/render-conflist.ts';
import { readOwnConnection } from '../connection.ts';
import { readSource } from '../inputs.ts';
import { jsonText } from '../render-document.ts';

/** Types of entries that have options of their own. */
const OWN_TYPES: readonly string[] = ['netplug', ...CHAINED_TYPES];

/**
 * Installs executables, kubeconfig and conflist on this node. Reads and checks everything before the first write. Each
 * file is replaced atomically, the conflist last, because the runtime uses it at once. Idempotent.
 */
export async function install(context: Context, options: InstallOptions): Promise<Status> {
  using report = openReport(context.io, options.mode === 'dry-run' ? 'table' : options.output);
  refuseKubeconfigFlags(context);
  const { ports } = context;
  const { binDir, confDir, confName, extent, prove, mode } = options;
  const { stateDir } = ports.machine;
  const before = (await readRecord(stateDir, report)) ?? { files: [], folders: [] };
  const byAgent = await readRecordAt(agentRecordPath(stateDir), report);
  const earlier = [...before.files, ...(byAgent?.files ?? [])];
  const files = await planFiles(context, options, { earlier, report });
  const installsAll = extent === 'everything';
  const conflistPath = join(confDir, confName);
  if (installsAll && !before.files.some(({ path }) => path === conflistPath)) await refuseForeign(conflistPath);
  const installation = { files, binDir, confDir: installsAll ? confDir : undefined, stateDir, before };
  const actor = installActor(installation, { report, now: () => ports.clock.now() });
  const plan = planInstallation(installation);
  if (mode === 'dry-run') {
    await showPlan(context, { plan, actor }, options.output);
    return 0;
  }
  const sums = files.map(({ path, sha256 }) => [path, sha256]);
  const name = recordName('node-install', { stateDir, sums });
  const execution = {
    ...executionOf(context, { name, actor }),
    onSkip: (step: Step<InstallAction>) => {
      if (step.kind !== 'write' || step.act !== 'put') return;
      report.step({ kind: step.file.kind, subject: step.file.path, done: 'unchanged' });
    },
  };
  await namingFlags(options, async () => {
    if ((await resumeIfSound(context, execution)) === undefined) await carryOut(execution, plan);
    if (prove !== undefined) await proveExecutable(join(binDir, PROVEN_NAME), prove, context.signal);
  });
  const shadow = installsAll ? await findShadow(options) : undefined;
  if (shadow !== undefined) report.warn(problemSentence(shadow));
  if (installsAll) for (const warning of await findForeign(context, confDir)) report.warn(warning);
  return 0;
}

/** Returns what other plugins have in the kernel of this node, a sentence each. */
async function findForeign({ ports, signal }: Context, confDir: string): Promise<readonly string[]> {
  const rivals = await findRivalDevices(ports.openHostNetwork()).catch((cause: unknown) => {
    // What is installed already must not fail because of what cannot be looked for.
    if (!isNetplugError(cause, 'kernel/failed')) throw cause;
    return [];
  });
  return [...rivals, ...(await findRemains(ports, confDir, signal))];
}

async function planFiles(
  context: Context,
  options: InstallOptions,
  { earlier, report }: { readonly earlier: readonly RecordedFile[]; readonly report: Report },
): Promise<readonly PlannedFile[]> {
  const { confDir, confName, binDir, extent, prove: where } = options;
  const { signal } = context;
  const folder = sourceFolder(context, options);
  const prove = where === undefined ? undefined : async (path: string) => proveExecutable(path, where, signal);
  const executables = await planExecutables({ binDir, folder, prove }, signal);
  if (extent === 'executables') {
    const missing = await missingStandardPlugins(binDir, folder);
    if (missing.length > 0) report.warn(`"${binDir}" lacks the standard plugins ${missing.join(', ')}`);
    return executables;
  }
  const { access, kubeconfig } = await planOrchAccess(context, options, report);
  const rendered = await decideConflist(context, { choice: options.conflist, orchAccess: access, report });
  const conflistPath = join(confDir, confName);
  const conflist = await planConflist(conflistPath, rendered, earlier);
  if (conflist.others.length > 0) report.warn(problemSentence(extendedBy(conflistPath, conflist.others)));
  return [
    ...executables,
    ...(kubeconfig === undefined ? [] : [planText('kubeconfig', join(confDir, KUBECONFIG_NAME), kubeconfig)]),
    conflist.planned,
  ];
}

/** @throws cli/usage */
async function readFurtherPlugins(file: string): Promise<readonly object[]> {
  const entries = tryParseJson((await readSource(file)).text);
  const isUsable = ({ type }: Readonly<Record<string, unknown>>): boolean =>
    isProgramName(type) && !OWN_TYPES.includes(type);
  if (Array.isArray(entries) && entries.every((entry) => isRecord(entry) && isUsable(entry))) return entries;
  throw new NetplugError(
    'cli/usage',
    `Cannot use file "${file}": it is not an array of entries of a network configuration list`,
    {
      hint: `Write [{"type": "NAME", …}]; NAME is a program in the folder of plugins, and none of ${OWN_TYPES.join(', ')}`,
    },
  );
}

/** Adds the flag of the folder to the hint of an error about a file in it. */
async function namingFlags({ binDir, confDir }: InstallOptions, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (cause) {
    if (!isNetplugError(cause, 'install/failed')) throw cause;
    const { path } = cause.facts;
    const isIn = (folder: string): boolean => path === folder || String(path).startsWith(`${folder}/`);
    const flag = isIn(binDir) ? '--bin-dir' : isIn(confDir) ? '--conf-dir' : undefined;
    if (flag === undefined || cause.hint?.includes(flag) === true) throw cause;
    const { code, message, facts, hint = '' } = cause;
    throw new NetplugError(code, message, { hint: `${hint} (the folder of ${flag})`, facts, cause });
  }
}

/** Refuses flags that would give the plugin the credentials of the administrator. @throws cli/usage */
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
  throw new NetplugError('cli/usage', 'Cannot install the executables: this tool runs from sources', {
    hint: 'Run "make build", and give the folder of the executables with --from',
  });
}

/**
 * Returns the text of the conflist, checked as `lint` checks it: the file of the user unchanged, or one generated for the
 * connection of the command. @throws netconf/invalid or the code that all problems share, cli/usage
 */
async function decideConflist(
  context: Context,
  { choice, orchAccess, report }: { choice: ConflistChoice; orchAccess: ConflistAccess; report: Report },
): Promise<string> {
  const checked = (text: string, name: string): string => {
    for (const warning of checkConflist(text, name)) report.warn(warning);
    return text;
  };
  if (choice.from === 'file') return checked((await readSource(choice.file)).text, `file "${choice.file}"`);
  const { datastore, warnings } = await readOwnConnection(context);
  for (const warning of warnings) report.warn(warning);
  const { chainedPlugins, ...options } = choice;
  const furtherPlugins = chainedPlugins === undefined ? [] : await readFurtherPlugins(chainedPlugins);
  const rendered = renderConflist({ ...options, furtherPlugins, datastore, orchAccess });
  return checked(jsonText(rendered), 'the network configuration that the options make');
}
