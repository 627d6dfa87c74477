import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeFileAtomically } from '../../../base/atomic-file.ts';
import { hasErrors } from '../../../checks/check.ts';
import { chartFiles } from '../../../install/cluster/chart/chart-files.ts';
import { releaseFiles, textOf } from '../../../install/cluster/release-manifests.ts';
import { findHazards, PREFLIGHT_CHECKS } from '../../../upgrade/cluster/checks/preflight.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { renderUpgradePlan, shownInstallation } from '../../../upgrade/cluster/render-upgrade.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { Output } from '../common-options.ts';
import type { Context, Status } from '../ports.ts';
import { readUpgrade, type UpgradeChoices } from './open-upgrade.ts';
import { findingLog } from '../sarif.ts';
import { renderHazards } from './render-hazards.ts';
import { upgradePlan } from './upgrade-acts.ts';

export interface PlanOptions extends UpgradeChoices {
  readonly save: string | undefined;
  readonly from: string | undefined;
  /** Folder for the files of the release. */
  readonly files: string | undefined;
  readonly output: Output;
}

/** Shows every step of the upgrade, also those that are done. */
export async function showUpgradePlan(context: Context, options: PlanOptions): Promise<Status> {
  const { io } = context;
  const { snapshot, target: named } = await readUpgrade(context, options);
  const { cluster } = snapshot;
  const target = options.files === undefined ? named : { ...named, source: options.files };
  if (options.save !== undefined) {
    // Private: it shows addresses and settings of the cluster.
    await writeFileAtomically(options.save, { text: `${JSON.stringify(snapshot, undefined, 1)}\n`, mode: 0o600 });
  }
  if (options.files !== undefined) await writeReleaseFiles(options.files, target);
  const installed = detectInstallation(snapshot);
  const plan = upgradePlan(snapshot, target);
  io.stdout(
    options.output === 'json'
      ? `${JSON.stringify({ cluster, installed: shownInstallation(installed), plan }, undefined, 2)}\n`
      : `${cluster === undefined ? '' : `cluster: ${cluster}\n`}${renderUpgradePlan(plan, installed, target)}`,
  );
  return 0;
}

/** Writes the manifests and the chart of the release; the manifest of this cluster has its settings. */
async function writeReleaseFiles(folder: string, target: UpgradeTarget): Promise<void> {
  const own = target.stages.flatMap(({ objects }) => objects);
  const isOperators = target.operator.length > 0;
  const files = {
    ...releaseFiles(target.release),
    ...(isOperators
      ? {}
      : { [target.manifest]: textOf(own, [`netplug ${target.release}, with the settings of this cluster.`]) }),
    ...Object.fromEntries(
      Object.entries(chartFiles(target.release)).map(([path, text]) => [join(target.chart, path), text]),
    ),
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

export interface PreflightOptions extends UpgradeChoices {
  readonly from: string | undefined;
  readonly output: 'text' | 'json' | 'sarif';
}

/** Shows the hazards. Returns 1 when the upgrade would be refused. */
export async function showPreflight(context: Context, { output, ...choices }: PreflightOptions): Promise<Status> {
  const { snapshot, target } = await readUpgrade(context, choices);
  const hazards = findHazards(snapshot, target);
  const refused = hasErrors(hazards);
  const log = output === 'sarif' ? findingLog('upgrade preflight', PREFLIGHT_CHECKS, hazards) : { refused, hazards };
  context.io.stdout(
    output === 'text' ? renderHazards(hazards, context.io.screen) : `${JSON.stringify(log, undefined, 2)}\n`,
  );
  return refused ? 1 : 0;
}
