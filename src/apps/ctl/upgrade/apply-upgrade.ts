import { join } from 'node:path';
import { sha256Of } from '../../../base/sha256.ts';
import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { type PlanRecord, readPlanRecord } from '../../../plans/plan-records.ts';
import { carryOut, type Execution } from '../../../plans/carry-out.ts';
import { isEmpty } from '../../../plans/plan.ts';
import type { Finding } from '../../../checks/check.ts';
import { blockingChecks, findHazards } from '../../../upgrade/cluster/checks/preflight.ts';
import { detectInstallation } from '../../../upgrade/cluster/detect-installation.ts';
import { NOTES } from '../../../upgrade/cluster/held-agents.ts';
import { renderUpgradePlan } from '../../../upgrade/cluster/render-upgrade.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradePlan, UpgradeStepData } from '../../../upgrade/cluster/upgrade-action.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import { VERSION } from '../../../base/version.ts';
import { fanOutWord } from '../../../model/typha.ts';
import { confirm, type ConfirmMode } from '../cluster/confirm.ts';
import { podRun } from '../cluster/node-pods.ts';
import { renderHazards } from './render-hazards.ts';
import type { Context, Status } from '../ports.ts';
import { executionOf, resumeIfSound } from '../run-plan.ts';
import { AS_INSTALLED, targetReader, type UpgradeChoices, type UpgradeSession, withUpgrade } from './open-upgrade.ts';
import { readSnapshot } from './read-snapshot.ts';
import { upgradeActor, upgradePlan, verifyAndNote } from './upgrade-acts.ts';
import { noteOf, type UpgradeRun } from './upgrade-run.ts';
import { judgeRelease, renderVerified, verifyRelease } from './verify.ts';
import { withUpgradeLease } from './with-upgrade-lease.ts';
import { type Backup, readBackup, writeBackup } from './backup.ts';
import { describeCounts } from '../datastore/export-file.ts';

export interface ApplyOptions extends UpgradeChoices {
  /** Ids of checks whose hazards the user accepts. */
  readonly accept: readonly string[];
  /** Ids of optional steps that are carried out. */
  readonly with: readonly string[];
  readonly backup: string | undefined;
  readonly proof: 'run' | 'skip';
  readonly mode: ConfirmMode;
}

/** Upgrades the cluster, or goes on with an upgrade that was interrupted. */
export async function applyUpgrade(context: Context, options: ApplyOptions): Promise<Status> {
  const targetOf = await targetReader(context, options);
  return withUpgrade(context, async (session) => {
    const goesOn = options.mode !== 'dry-run' && (await findInterrupted(session)) !== undefined;
    if (options.mode !== 'apply' && !goesOn) {
      const plan = showUpgrade(await readRun(session, targetOf, options), options);
      if (options.mode === 'dry-run') return 0;
      if (isEmpty(ownSteps(plan, options.with))) return finish(context, plan);
      // A question without an answer keeps no other call out.
      if (!(await confirm(context, questionOf(session, options)))) return 1;
    }
    return withUpgradeLease(session, async (alone) => {
      const parts = await readRun(alone, targetOf, options);
      if (goesOn) return goOn(parts, options);
      const isShown = options.mode === 'ask';
      const plan = isShown ? upgradePlan(parts.snapshot, parts.target) : showUpgrade(parts, options);
      return carryOutUpgrade(parts, plan, options);
    });
  });
}

function questionOf({ cluster }: UpgradeSession, { typha }: ApplyOptions): string {
  if (typha !== undefined) return `Switch netplug-typha ${fanOutWord(typha)} in the cluster with ${cluster}?`;
  return `Upgrade the cluster with ${cluster} to ${VERSION}?`;
}

/** Reads the cluster, and what its upgrade leads to. */
async function readRun(
  session: UpgradeSession,
  targetOf: (snapshot: ClusterSnapshot) => UpgradeTarget,
  { method, backup, proof }: ApplyOptions,
): Promise<UpgradeRun> {
  const snapshot = await readSnapshot(session, targetOf, method);
  const folder = backup ?? join(session.context.ports.machine.stateDir, 'backups', recordOf(session));
  return { session, run: podRun(session.api, session.context), snapshot, target: targetOf(snapshot), folder, proof };
}

/** Shows hazards and plan. @throws upgrade/refused */
function showUpgrade({ session, snapshot, target }: UpgradeRun, { accept }: ApplyOptions): UpgradePlan {
  const plan = upgradePlan(snapshot, target);
  showHazards(session.context, findHazards(snapshot, target), accept);
  const text = renderUpgradePlan(plan, detectInstallation(snapshot), target);
  session.context.io.stdout(`cluster: ${session.cluster}\n${text}`);
  return plan;
}

/** Ids of checks whose hazards an interrupted upgrade may leave, and a new plan ends. */
const LEFT_BEHIND = ['nodes/agent-missing', 'objects/rolling', 'chart/pending'];

/** Goes on with an interrupted upgrade, by a new plan when the cluster has changed or options say what to install. */
async function goOn(parts: UpgradeRun, options: ApplyOptions): Promise<Status> {
  const { context } = parts.session;
  context.io.stderr('an interrupted upgrade of this cluster goes on\n');
  // The recorded plan has the objects of the options that were given then.
  const isChosenAnew =
    [options.registry, options.like, options.typha].some((choice) => choice !== undefined) || options.with.length > 0;
  const outcome = isChosenAnew
    ? undefined
    : await saysWhenUnfinished(context, async () => resumeIfSound(context, executionIn(parts)));
  if (outcome !== undefined) return finish(context, upgradePlan(parts.snapshot, parts.target));
  const plan = showUpgrade(parts, { ...options, accept: [...options.accept, ...LEFT_BEHIND] });
  if (isChosenAnew && options.mode === 'ask' && !(await confirm(context, questionOf(parts.session, options)))) return 1;
  return carryOutUpgrade(parts, plan, options);
}

async function carryOutUpgrade(parts: UpgradeRun, plan: UpgradePlan, options: ApplyOptions): Promise<Status> {
  const { context } = parts.session;
  const own = ownSteps(plan, options.with);
  if (!isEmpty(own)) await saysWhenUnfinished(context, async () => carryOut(executionIn(parts), own));
  return finish(context, plan);
}

function executionIn(parts: UpgradeRun): Execution<UpgradeStepData> {
  const { context } = parts.session;
  return executionOf(context, { name: recordOf(parts.session), actor: upgradeActor(parts) }, context.io.stdout);
}

/** Whatever ends it, the cluster may be between two releases then. */
async function saysWhenUnfinished<T>({ io }: Context, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    io.stderr(
      'the upgrade is not finished: correct the cause and run the same command again, which goes on from here; once there is a backup, "netplugctl upgrade rollback" goes back\n',
    );
    throw cause;
  }
}

function finish({ io }: Context, { stages }: UpgradePlan): Status {
  io.stdout(`the cluster has release ${VERSION}\n`);
  const left = stages.flatMap(({ steps }) => steps).filter((step) => step.kind === 'command');
  for (const step of left)
    if (!('isDone' in step && step.isDone)) io.stdout(`left for you: ${step.text}\n  $ ${step.command.join(' ')}\n`);
  return 0;
}

/** The steps that this program carries out: not those that are done, left to a person, or optional and not asked for. */
export function ownSteps(plan: UpgradePlan, chosen: readonly string[]): UpgradePlan {
  const optional = plan.stages.flatMap(({ steps }) =>
    steps.flatMap((step) => (step.kind === 'write' && step.isOptional === true ? [step.id] : [])),
  );
  const unknown = chosen.find((id) => !optional.includes(id));
  if (unknown !== undefined) {
    const hint = optional.length === 0 ? 'This plan has none' : `This plan has ${optional.join(', ')}`;
    throw new NetplugError('cli/usage', `Cannot carry out "${unknown}": it is no optional step of the plan`, { hint });
  }
  return {
    ...plan,
    stages: plan.stages.map(({ title, steps }) => ({
      title,
      steps: steps.filter(
        (step) => step.kind === 'write' && !step.isDone && (step.isOptional !== true || chosen.includes(step.id)),
      ),
    })),
  };
}

/** Shows the fields that others lose first. @throws upgrade/refused */
function showHazards({ io }: Context, hazards: readonly Finding[], accepted: readonly string[]): void {
  if (hazards.length > 0) io.stderr(renderHazards(hazards));
  const ids = blockingChecks(hazards, accepted);
  if (ids.length === 0) return;
  throw new NetplugError(
    'upgrade/refused',
    `Cannot upgrade: the preflight found ${ids.join(', ')}; nothing was changed`,
    {
      hint: 'Remove the hazards that are listed above, or accept each with --accept ID',
      facts: { checks: ids },
    },
  );
}

/** Returns the record of an upgrade of this cluster that an earlier call has begun on this machine and not ended. */
export async function findInterrupted(session: UpgradeSession): Promise<PlanRecord<UpgradeStepData> | undefined> {
  const { planRecords } = session.context.ports;
  const record = await readPlanRecord<UpgradeStepData>(planRecords, recordOf(session)).catch((cause: unknown) => {
    // A damaged record is replaced.
    if (isNetplugError(cause, 'plan/outdated')) return undefined;
    throw cause;
  });
  return record?.isOver === true ? undefined : record;
}

/** Verifies a cluster that has the release, unless it was verified and still is as it should be. @throws upgrade/not-verified */
export async function ensureVerified(
  context: Context,
  { proof, ...choices }: UpgradeChoices & { readonly proof: 'run' | 'skip' },
): Promise<void> {
  const targetOf = await targetReader(context, choices);
  await withUpgrade(context, async (open) =>
    withUpgradeLease(open, async (session) => {
      const snapshot = await readSnapshot(session, targetOf, choices.method);
      const target = targetOf(snapshot);
      const isSound = judgeRelease(snapshot, target).every(({ isOk }) => isOk);
      if (isSound && (await noteOf(session, NOTES.verified)) === target.release) return;
      await verifyAndNote({ session, run: podRun(session.api, session.context), snapshot, target, folder: '', proof });
    }),
  );
}

/** Returns the name of the record of an upgrade of this cluster to this release, or of the rollback from it. */
export function recordOf({ uid }: UpgradeSession, purpose: 'upgrade' | 'rollback' = 'upgrade'): string {
  return `${purpose}-${VERSION}-${sha256Of(uid).slice(0, 12)}`;
}

export interface VerifyOptions {
  readonly output: 'table' | 'json';
  readonly proof: 'run' | 'skip';
}

/** Verifies that the cluster has this release. Returns 1 if a check fails. */
export async function verifyUpgrade(context: Context, { output, proof }: VerifyOptions): Promise<Status> {
  const targetOf = await targetReader(context, AS_INSTALLED);
  return withUpgrade(context, async (session) => {
    const snapshot = await readSnapshot(session, targetOf);
    const target = targetOf(snapshot);
    const results = judgeRelease(snapshot, target);
    const isOk = results.every((each) => each.isOk);
    context.io.stdout(
      output === 'json' ? `${JSON.stringify({ ok: isOk, results }, undefined, 2)}\n` : renderVerified(results),
    );
    if (!isOk) return 1;
    if (proof === 'run')
      await verifyRelease({ session, run: podRun(session.api, context), snapshot, target, folder: '', proof });
    return 0;
  });
}

/** Writes a backup, or checks one. */
export async function backUp(
  context: Context,
  { to, check }: { readonly to: string | undefined; readonly check: string | undefined },
): Promise<Status> {
  if (check !== undefined) {
    report(context, check, await readBackup(check));
    return 0;
  }
  if (to === undefined) {
    throw new NetplugError('cli/usage', 'Cannot back up: no folder is named', { hint: 'Add --to DIR, or --check DIR' });
  }
  const targetOf = await targetReader(context, AS_INSTALLED);
  return withUpgrade(context, async (session) => {
    const snapshot: ClusterSnapshot = await readSnapshot(session, targetOf);
    report(context, to, await writeBackup(session, { snapshot, target: targetOf(snapshot), folder: to }));
    return 0;
  });
}

function report({ io }: Context, folder: string, { header, objects, charts, records }: Backup): void {
  io.stdout(
    `${folder}: release ${header.from}, ${header.at}: ${String(objects.length)} objects, ${String(charts.length)} chart records, ${describeCounts(records.counts)}; every checksum matches\n`,
  );
}
