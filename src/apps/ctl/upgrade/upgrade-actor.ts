import { isNetplugError, NetplugError, never } from '../../../base/errors.ts';
import { AGENT_SET, OPERATOR, SYSTEM_NAMESPACE, systemObject } from '../../../install/cluster/names.ts';
import type { Manifest } from '../../../model/manifest.ts';
import type { Actor, Standing } from '../../../plans/carry-out.ts';
import { agentNodes } from '../../../upgrade/cluster/agent-nodes.ts';
import { followingPods } from '../../../upgrade/cluster/detect-installation.ts';
import { planPreparation } from '../../../upgrade/host-endpoints/plan-preparation.ts';
import { carryOut } from '../../../plans/carry-out.ts';
import { memoryPlanRecords } from '../../../plans/plan-records.ts';
import { resourceActor } from '../../../upgrade/resource-steps.ts';
import { metadataIn, releaseIn } from '../../../upgrade/cluster/objects-in.ts';
import { isOnDelete, NOTES } from '../../../upgrade/cluster/held-agents.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { StepObject, UpgradeStepData } from '../../../upgrade/cluster/upgrade-action.ts';
import { annotate, applyRelease, areApplied, deleteObject, findObject, tryMerge } from '../../../kube/objects/apply.ts';
import {
  collectionHolding,
  objectName,
  type ObjectReference,
  referenceKey,
  referenceOf,
  referenceTo,
} from '../../../kube/objects/reference.ts';
import { openHelm } from '../cluster/helm.ts';
import type { PodRun } from '../cluster/node-pods.ts';
import { waitForDefinitions, waitForInstallation, waitForWorkload } from '../cluster/wait-ready.ts';
import { type WaitState, waitUntil } from '../cluster/wait-until.ts';
import { type Backup, findBackup, writeBackup } from './backup.ts';
import type { UpgradeSession } from './open-upgrade.ts';
import { readChartRecords } from './read-charts.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { readPods } from './read-nodes.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { toolsImage } from './proof.ts';
import { annotateHold, areHeld, holdAgentsBack, isRolledOut, mainImage, rollOut, tryCanary } from './roll-out.ts';
import { verifyRelease } from './verify.ts';
import { finishFlow, startFlow, stopFlow, whilePacketsFlow } from './watch-packets.ts';

export const OWN_NAMESPACE = referenceTo('Namespace', { name: SYSTEM_NAMESPACE });
const OWNERSHIP = 'meta.helm.sh/release-namespace';
const RESTARTED = 'netplug.io/restarted-for';

export interface UpgradeRun {
  readonly session: UpgradeSession;
  readonly run: PodRun;
  /** As it was when the plan was made; of use for a backup only. */
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  /** Folder of the backup. */
  readonly folder: string;
  readonly proof: 'run' | 'skip';
}

/** Carries out the steps of an upgrade. Each can be repeated, and the cluster itself shows whether it is done. */
export function upgradeActor(parts: UpgradeRun): Actor<UpgradeStepData> {
  return {
    inspect: async (step): Promise<Standing> => ((await isDone(step, parts)) ? 'after' : 'before'),
    apply: async (step) => {
      if (parts.proof === 'skip' || UNNOTICED.has(step.act)) await carryOutStep(step, parts);
      else await carryOutWatched(step, parts);
    },
  };
}

/** Steps of which no node notices anything. */
const UNNOTICED: ReadonlySet<UpgradeStepData['act']> = new Set([
  'back-up',
  'pass-release-on',
  'delete-records',
  'restart',
]);

/** Packets between pods show whether the step disturbs them. @throws upgrade/packets-lost */
async function carryOutWatched(step: UpgradeStepData, parts: UpgradeRun): Promise<void> {
  const { run, snapshot, target } = parts;
  const agents = new Set(agentNodes(snapshot).map(({ name }) => name));
  const nodes = (await readNodes(run.api, run.signal)).filter((node) => agents.has(node.name) && node.isReady);
  try {
    await startFlow(run, { nodes: nodes.map(({ name }) => name), image: toolsImage(target) });
    await whilePacketsFlow(run, async (watched) => carryOutStep(step, { ...parts, run: watched }));
  } catch (cause) {
    if (!isNetplugError(cause, 'upgrade/packets-lost')) throw cause;
    run.onProgress(cause.message);
    await holdAgentsBack(parts);
    // Only now: until here, the next call finds the losses as well.
    await stopFlow(run);
    throw cause;
  }
}

/** Whether one node has the new agent, and has proved its network. */
async function isTried({ session, target }: UpgradeRun): Promise<boolean> {
  return (await noteOf(session, NOTES.canary)) === target.release;
}

async function isDone(step: UpgradeStepData, parts: UpgradeRun): Promise<boolean> {
  const { session, run, target } = parts;
  const { api, context } = session;
  const { signal } = context;
  switch (step.act) {
    case 'back-up':
      return (await findOwnBackup(parts)) !== undefined;
    case 'prepare-host-endpoints':
      return (await preparation(session)).stages.every(({ steps }) => steps.length === 0);
    case 'pass-release-on': {
      const found = await findReference(session, step.object, parts.snapshot);
      return found === undefined || metadataIn(found).annotations[OWNERSHIP] === step.namespace;
    }
    case 'apply':
      return areApplied(api, step.objects, signal);
    case 'chart':
      return (await readChartRecords(api, signal)).releases.some(
        ({ name, namespace, status, version }) =>
          name === step.release && namespace === step.namespace && status === 'deployed' && version === target.release,
      );
    case 'prune':
      for (const object of step.objects)
        if ((await findReference(session, object, parts.snapshot)) !== undefined) return false;
      return true;
    case 'hold-agents':
      return (await isTried(parts)) || (await areHeld(run)) || (await operatorLag(parts)) === undefined;
    case 'canary':
      if (await isTried(parts)) return true;
      return step.heldBy === 'tool' ? isRolledOut(run, step.agent) : (await operatorLag(parts)) === undefined;
    case 'roll-out':
      return isRolledOut(run, step.agent);
    case 'await-operator':
      return !(await areHeld(run)) && (await operatorLag(parts)) === undefined;
    case 'verify':
      return (await noteOf(session, NOTES.verified)) === target.release;
    case 'delete-records':
      for (const name of step.records)
        if ((await findObject(api, recordSecret(name, step.namespace), signal)) !== undefined) return false;
      return true;
    case 'restart': {
      const found = await findReference(session, step.workload, parts.snapshot);
      return found === undefined || JSON.stringify(found).includes(`"${RESTARTED}":"${target.release}"`);
    }
    default:
      return never(step);
  }
}

async function carryOutStep(step: UpgradeStepData, parts: UpgradeRun): Promise<void> {
  const { session, run, snapshot, target } = parts;
  const { api, context, access } = session;
  const { signal } = context;
  switch (step.act) {
    case 'back-up':
      return backUpOnce(parts);
    case 'prepare-host-endpoints':
      await carryOut(
        {
          name: 'prepare-host-endpoints',
          records: memoryPlanRecords(),
          afterwards: 'remove-record',
          actor: resourceActor(session.store),
          signal,
        },
        await preparation(session),
      );
      return;
    case 'pass-release-on': {
      const found = await findReference(session, step.object, snapshot);
      if (found !== undefined)
        await annotate(api, { which: referenceOf(found), annotations: { [OWNERSHIP]: step.namespace } }, signal);
      return;
    }
    case 'apply':
      for (const object of step.objects) await applyRelease(api, object, signal);
      if (step.stage === 'definitions')
        await waitForDefinitions(
          run,
          step.objects.map((object) => referenceOf(object).name),
        );
      return;
    case 'chart': {
      await endPending(parts, step);
      const values = snapshot.charts.find(({ name }) => name === step.release)?.values ?? {};
      const helm = await openHelm(context, access);
      await helm.install({ name: step.release, namespace: step.namespace }, values);
      return;
    }
    case 'prune':
      for (const object of step.objects) {
        const found = await findReference(session, object, snapshot);
        if (found !== undefined) await deleteObject(api, referenceOf(found), signal);
      }
      return;
    case 'hold-agents':
      return annotateHold(run, target.release);
    case 'canary':
      await tryCanary(parts, step);
      await annotate(api, { which: OWN_NAMESPACE, annotations: { [NOTES.canary]: target.release } }, signal);
      return;
    case 'roll-out':
      return rollOut(run, step.agent);
    case 'await-operator':
      if (await areHeld(run)) await annotateHold(run, null);
      return awaitOperator(parts);
    case 'verify':
      return verifyAndNote(parts);
    case 'delete-records':
      for (const name of step.records) await deleteObject(api, recordSecret(name, step.namespace), signal);
      return;
    case 'restart': {
      const found = await findReference(session, step.workload, snapshot);
      if (found === undefined) return;
      const body = { spec: { template: { metadata: { annotations: { [RESTARTED]: target.release } } } } };
      await tryMerge(api, { which: referenceOf(found), body }, signal);
      return;
    }
    default:
      never(step);
  }
}

/** Writes the backup of this upgrade. One that exists is kept: a backup of a half-upgraded cluster could not undo the upgrade. */
async function backUpOnce(parts: UpgradeRun): Promise<void> {
  const { session, run, snapshot, target, folder } = parts;
  if ((await findOwnBackup(parts)) !== undefined) {
    run.onProgress(`the backup from before is kept: ${folder}`);
    return;
  }
  if (isUnderWay(parts))
    run.onProgress('pods have the new release already: this backup is of a cluster between two releases');
  const { header } = await writeBackup(session, { snapshot, target, folder });
  const annotations = { [NOTES.backup]: header.at };
  await annotate(session.api, { which: OWN_NAMESPACE, annotations }, session.context.signal);
  run.onProgress(`backup written and read back: ${folder}`);
}

/** Returns the backup of the upgrade that is under way; undefined when the folder has none, or an older one. */
async function findOwnBackup(parts: UpgradeRun): Promise<Backup | undefined> {
  const { session, target, folder } = parts;
  const found = await findBackup(folder);
  if (found?.header.cluster !== session.uid || found.header.to !== target.release) return undefined;
  return (await noteOf(session, NOTES.backup)) === found.header.at || isUnderWay(parts) ? found : undefined;
}

function isUnderWay({ snapshot, target }: UpgradeRun): boolean {
  return followingPods(snapshot.pods).some(({ images }) => images.some((image) => releaseIn(image) === target.release));
}

/** Helm refuses every operation while the record of one that was interrupted is pending: it may still be at work, or be gone. */
async function endPending(
  { session: { api }, run, folder }: UpgradeRun,
  { release, namespace }: { readonly release: string; readonly namespace: string },
): Promise<void> {
  const backup = await findBackup(folder);
  if (backup === undefined) return;
  const before = new Set(backup.charts.map(objectName));
  const pending = async (): Promise<Manifest | undefined> => {
    const { releases, secrets } = await readChartRecords(api, run.signal);
    const newest = releases.find((each) => each.name === release && each.namespace === namespace);
    if (newest?.status.startsWith('pending-') !== true) return undefined;
    const record = referenceKey(recordSecret(newest.record, namespace));
    return before.has(record) ? undefined : secrets.find((each) => objectName(each) === record);
  };
  const endMs = run.clock.monotonic() + PENDING_MS;
  while ((await pending()) !== undefined && run.clock.monotonic() < endMs) {
    run.onProgress(`chart ${release}: waiting for an operation of helm that has begun before`);
    await run.clock.sleep(PENDING_MS / 10, run.signal);
  }
  const left = await pending();
  if (left !== undefined) await deleteObject(api, referenceOf(left), run.signal);
}

/** Verifies the release, and notes in the cluster that it was. @throws upgrade/not-verified */
export async function verifyAndNote(parts: UpgradeRun): Promise<void> {
  await verifyRelease(parts);
  if (parts.proof === 'run') await finishFlow(parts.run);
  else await stopFlow(parts.run);
  await annotate(
    parts.session.api,
    {
      which: OWN_NAMESPACE,
      annotations: { [NOTES.verified]: parts.target.release, [NOTES.canary]: null, [NOTES.backup]: null },
    },
    parts.session.context.signal,
  );
}

async function preparation({
  store,
  context: { signal },
}: UpgradeSession): Promise<ReturnType<typeof planPreparation>> {
  const { resources } = await store.listResources('HostEndpoint', signal);
  const policy = await store.findResource({ kind: 'GlobalNetworkPolicy', name: UPGRADE_NAMES.policy }, signal);
  return planPreparation({ endpoints: resources, policy }, UPGRADE_NAMES);
}

/** Returns a note on the namespace. */
export async function noteOf({ api, context: { signal } }: UpgradeSession, note: string): Promise<string | undefined> {
  const found = await findObject(api, OWN_NAMESPACE, signal);
  return found?.metadata.annotations?.[note];
}

/** Finds the object; undefined as well for a kind that the API server does not serve. */
async function findReference(
  { api, context: { signal } }: UpgradeSession,
  object: StepObject,
  { served }: ClusterSnapshot,
): Promise<Manifest | undefined> {
  const which = referenceTo(object.kind, object);
  const { group, plural } = collectionHolding(which);
  return served.includes(`${group}/${plural}`) ? findObject(api, which, signal) : undefined;
}

function recordSecret(name: string, namespace: string): ObjectReference {
  return referenceTo('Secret', { name, namespace });
}

/** An operation of helm that a killed call has begun may go on for so long. */
const PENDING_MS = 30_000;

/** Waits for the operator of the release, and for what it rolls out. */
async function awaitOperator(parts: UpgradeRun): Promise<void> {
  const { run } = parts;
  await waitForWorkload(run, { kind: 'Deployment', name: OPERATOR });
  const look = async (): Promise<WaitState<undefined>> => {
    const open = await operatorLag(parts);
    return open === undefined ? { found: undefined } : { open: `operator: ${open}` };
  };
  await waitUntil(
    run,
    look,
    (open, why) =>
      new NetplugError('upgrade/not-verified', `${why} while waiting for the ${open}`, {
        hint: 'See "kubectl describe installation default" and the log of the operator; then run the command again',
      }),
  );
  await waitForInstallation(run);
  await waitForWorkload(run, { kind: 'DaemonSet', name: AGENT_SET });
}

async function operatorLag({ run, target, session }: UpgradeRun): Promise<string | undefined> {
  for (const [kind, name] of [
    ['Deployment', OPERATOR],
    ['DaemonSet', AGENT_SET],
  ] as const) {
    const found = await findObject(run.api, systemObject(kind, name), run.signal);
    const release = found === undefined ? undefined : releaseIn(mainImage(found));
    if (release !== target.release) return `${kind} ${name} has release ${release ?? 'none'}`;
    if (found !== undefined && isOnDelete(found)) return `${kind} ${name} is held`;
  }
  const pods = await readPods(session.api, run.signal);
  const old = pods.find(
    ({ component, images: [image = ''] }) => component === AGENT_SET && releaseIn(image) !== target.release,
  );
  return old === undefined ? undefined : `pod ${old.name} on node ${old.node} has another release`;
}
