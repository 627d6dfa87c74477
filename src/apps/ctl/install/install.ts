import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { NetplugError } from '../../../base/errors.ts';
import { hasFlags } from '../../../config/choose-connection.ts';
import { decideConflist, refuseForeign } from './install-conflist.ts';
import { onFile } from '../../../install/on-file.ts';
import { planExecutables, planText, type PlannedFile } from '../../../install/files.ts';
import type { InstallOptions } from './install-options.ts';
import { planOrchAccess } from './install-kubeconfig.ts';
import { KUBECONFIG_NAME } from '../../../install/places.ts';
import { readRecord } from '../../../install/record.ts';
import { type InstallAction, installActor, planInstallation } from '../../../install/plan-installation.ts';
import { carryOut } from '../../../plans/carry-out.ts';
import type { Step } from '../../../plans/plan.ts';
import { executionOf, recordName, resumeIfSound, showPlan } from '../run-plan.ts';
import { openReport, type Report } from './install-report.ts';
import type { Context, Status } from '../ports.ts';

/**
 * Installs executables, kubeconfig and conflist on this node. Reads and checks everything before the first write. Each
 * file is replaced atomically, the conflist last, because the runtime uses it at once. Idempotent.
 */
export async function install(context: Context, options: InstallOptions): Promise<Status> {
  using report = openReport(context.io, options.mode === 'rehearse' ? 'table' : options.output);
  refuseKubeconfigFlags(context);
  const files = await planFiles(context, options, report);
  const { ports } = context;
  const { binDir, confDir, confName, mode } = options;
  const { stateDir } = ports.machine;
  const before = (await readRecord(stateDir, report)) ?? { files: [], folders: [] };
  const conflistPath = join(confDir, confName);
  if (!before.files.some(({ path }) => path === conflistPath)) await refuseForeign(conflistPath);
  const installation = { files, binDir, confDir, stateDir, before };
  const actor = installActor(installation, { report, now: () => ports.clock.now() });
  const plan = planInstallation(installation);
  if (mode === 'rehearse') {
    await showPlan(context, { plan, actor }, options.output);
    return 0;
  }
  const sums = files.map(({ path, sha256 }) => [path, sha256]);
  const name = recordName('install', { stateDir, sums });
  const execution = {
    ...executionOf(context, { name, actor }),
    onSkip: (step: Step<InstallAction>) => {
      if (step.kind !== 'write' || step.act !== 'put') return;
      report.step({ kind: step.file.kind, subject: step.file.path, done: 'unchanged' });
    },
  };
  if ((await resumeIfSound(context, execution)) === undefined) await carryOut(execution, plan);
  await warnOfOtherConfigurations(options, report);
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

/** Warns of another configuration whose name sorts first: runtimes use that one. */
async function warnOfOtherConfigurations({ confDir, confName }: InstallOptions, report: Report): Promise<void> {
  const names = await onFile('read', confDir, async () => readdir(confDir));
  const [first] = names.filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();
  if (first === undefined || first === confName) return;
  report.warn(
    `"${join(confDir, first)}" sorts before "${confName}": a runtime that reads one configuration reads that one`,
  );
}
