import { isNetplugError, NetplugError } from '../../../base/errors.ts';
import { AGENT_SET, OPERATOR, systemObject } from '../../../install/cluster/names.ts';
import { TYPHA } from '../../../model/typha.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { annotate, applyRelease, areApplied, deleteObject, findObject } from '../../../kube/objects/apply.ts';
import { objectName, referenceKey, referenceOf, referenceTo } from '../../../kube/objects/reference.ts';
import { INSTALLATION_NAME } from '../../../model/installation.ts';
import { actOf, type Acts, actorOf } from '../../../plans/acts.ts';
import { type Actor, carryOutUnrecorded } from '../../../plans/carry-out.ts';
import { isEmpty } from '../../../plans/plan.ts';
import { agentNodes } from '../../../upgrade/cluster/agent-nodes.ts';
import { followingPods, oldestRelease } from '../../../upgrade/cluster/detect-installation.ts';
import { isOnDelete, NOTES } from '../../../upgrade/cluster/held-agents.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { planUpgrade } from '../../../upgrade/cluster/plan-upgrade.ts';
import { mtuChange } from '../../../upgrade/cluster/mtu-change.ts';
import type { ClusterSnapshot } from '../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../upgrade/cluster/target.ts';
import type { UpgradeAction, UpgradePlan, UpgradeStepData } from '../../../upgrade/cluster/upgrade-action.ts';
import { planPreparation } from '../../../upgrade/host-endpoints/plan-preparation.ts';
import { resourceActor } from '../../../upgrade/resource-steps.ts';
import { agentErrors, withReported } from '../cluster/agent-errors.ts';
import { DELETION } from '../cluster/cluster-acts.ts';
import { openHelm } from '../cluster/helm.ts';
import { REMOVAL } from '../cluster/end-servers.ts';
import { waitForDefinitions, waitForInstallation, waitForWorkload, workloadLag } from '../cluster/wait-ready.ts';
import { type WaitState, waitUntil } from '../cluster/wait-until.ts';
import { type Backup, findBackup, writeBackup } from './backup.ts';
import { withMtuChange } from './flow-losses.ts';
import type { UpgradeSession } from './open-upgrade.ts';
import { toolsImage } from './proof.ts';
import { readChartRecords } from './read-charts.ts';
import { readNodes } from '../../../kube/status/node-state.ts';
import { readPods } from './read-nodes.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { annotateHold, areHeld, holdAgentsBack, isRolledOut, mainImage, rollOut, tryCanary } from './roll-out.ts';
import { RESTART } from './sidecars/restart-workload.ts';
import { noteOf, type UpgradeRun, writeNotes } from './upgrade-run.ts';
import { verifyRelease } from './verify.ts';
import { finishFlow, startFlow, stopFlow, whilePacketsFlow } from './watch-packets.ts';

const SERVERS = { kind: 'Deployment', name: TYPHA } as const;
const OWNERSHIP = 'meta.helm.sh/release-namespace';
const OBJECTS: Readonly<Record<(UpgradeAction & { readonly act: 'apply' })['stage'], string>> = {
  definitions: 'the CustomResourceDefinitions',
  rights: 'accounts and rights',
  admission: 'the admission policies',
  configuration: 'the configuration',
  controllers: 'the controllers',
  typha: 'the fan-out',
  nodes: 'other programs of nodes',
  operator: 'the operator',
};

/** The acts of an upgrade. Each can be repeated, and the cluster itself shows whether it is done. */
export const UPGRADE_ACTS: Acts<UpgradeAction, UpgradeRun> = {
  'back-up': {
    text: () => 'back up resources, records, objects and chart records, with checksums',
    isDone: async (_, upgrade) => (await findOwnBackup(upgrade)) !== undefined,
    apply: async (_, upgrade) => backUpOnce(upgrade),
  },
  'prepare-host-endpoints': {
    text: ({ endpoints }) =>
      `label ${String(endpoints)} host endpoints for all interfaces, and allow and log their traffic`,
    isDone: async (_, { session }) => isEmpty(await preparation(session)),
    apply: async (_, { session }) =>
      carryOutUnrecorded(await preparation(session), {
        actor: resourceActor(session.store),
        signal: session.context.signal,
      }),
  },
  'pass-release-on': {
    text: ({ object: { kind, name }, namespace, skipped }) =>
      skipped === undefined
        ? `annotate ${kind} "${name}" with ${OWNERSHIP}=${namespace}`
        : `skip ${kind} "${name}": ${skipped}`,
    isDone: async ({ object, namespace }, { run }) => {
      const found = await findObject(run.api, object, run.signal);
      return found === undefined || found.metadata.annotations?.[OWNERSHIP] === namespace;
    },
    apply: async ({ object, namespace }, { run: { api, signal } }) => {
      if ((await findObject(api, object, signal)) === undefined) return;
      await annotate(api, { which: object, annotations: { [OWNERSHIP]: namespace } }, signal);
    },
  },
  apply: {
    text: ({ stage, objects }) => `apply ${OBJECTS[stage]}: ${listed(objects)}`,
    isDone: async ({ stage, objects }, { run }) =>
      (await areApplied(run.api, objects, run.signal)) && (stage !== 'typha' || (await areServersNew(run))),
    apply: async ({ stage, objects }, { run }) => {
      for (const object of objects) await applyRelease(run.api, object, run.signal);
      if (stage === 'typha') await waitForWorkload(run, SERVERS);
      if (stage !== 'definitions') return;
      await waitForDefinitions(
        run,
        objects.map((object) => referenceOf(object).name),
      );
    },
  },
  chart: {
    text: ({ verb, release, namespace }) =>
      `${verb} release "${release}" in namespace "${namespace}", with the values of the present release`,
    isDone: async ({ release, namespace }, { run, target }) =>
      (await readChartRecords(run.api, run.signal)).releases.some(
        (each) =>
          each.name === release &&
          each.namespace === namespace &&
          each.status === 'deployed' &&
          each.version === target.release,
      ),
    apply: async ({ release, namespace }, upgrade) => {
      await endPending(upgrade, { release, namespace });
      const { snapshot, session } = upgrade;
      const values = snapshot.charts.find(({ name }) => name === release)?.values ?? {};
      const helm = await openHelm(session.context, session.access);
      await helm.install({ name: release, namespace }, values);
    },
  },
  prune: REMOVAL,
  'hold-agents': {
    text: () => `annotate Installation "${INSTALLATION_NAME}", so that the operator gives no node the new agent yet`,
    isDone: async (_, upgrade) =>
      (await isTried(upgrade)) || (await areHeld(upgrade.run)) || (await operatorLag(upgrade)) === undefined,
    apply: async (_, { run, target }) => annotateHold(run, target.release),
  },
  canary: {
    text: ({ node }) => `replace the agent of node "${node}" and verify its network`,
    isDone: async ({ agent, heldBy }, upgrade) => {
      if (await isTried(upgrade)) return true;
      return heldBy === 'tool' ? isRolledOut(upgrade.run, agent) : (await operatorLag(upgrade)) === undefined;
    },
    apply: async (canary, upgrade) => {
      await tryCanary(upgrade, canary);
      await writeNotes(upgrade.session, { [NOTES.canary]: upgrade.target.release });
    },
  },
  'roll-out': {
    text: ({ nodes }) => `roll the agent out on ${String(nodes)} nodes, one at a time`,
    isDone: async ({ agent }, { run }) => isRolledOut(run, agent),
    apply: async ({ agent }, { run }) => rollOut(run, agent),
  },
  'await-operator': {
    text: ({ release }) => `wait until the operator has rolled out ${release} on every node`,
    isDone: async (_, upgrade) => !(await areHeld(upgrade.run)) && (await operatorLag(upgrade)) === undefined,
    apply: async (_, upgrade) => {
      if (await areHeld(upgrade.run)) await annotateHold(upgrade.run, null);
      await awaitOperator(upgrade);
    },
  },
  verify: {
    text: () => 'verify releases, ready pods and the network of every node',
    isDone: async (_, { session, target }) => (await noteOf(session, NOTES.verified)) === target.release,
    apply: async (_, upgrade) => verifyAndNote(upgrade),
  },
  'delete-records': {
    ...DELETION,
    text: ({ release, namespace }) => `delete the records of release "${release}" in namespace "${namespace}"`,
  },
  restart: RESTART,
};

/** Returns the plan of the upgrade to the target. Pure. */
export function upgradePlan(snapshot: ClusterSnapshot, target: UpgradeTarget): UpgradePlan {
  return planUpgrade(snapshot, target, (action) => actOf(UPGRADE_ACTS, action).text(action));
}

/** Acts of which no node notices anything. */
const UNNOTICED: ReadonlySet<UpgradeAction['act']> = new Set([
  'back-up',
  'pass-release-on',
  'delete-records',
  'restart',
]);

/** Carries out the steps of an upgrade while packets between pods show whether they disturb them. */
export function upgradeActor(upgrade: UpgradeRun): Actor<UpgradeStepData> {
  return {
    ...actorOf(UPGRADE_ACTS, upgrade),
    apply: async (step) =>
      upgrade.proof === 'skip' || UNNOTICED.has(step.act)
        ? actOf(UPGRADE_ACTS, step).apply(step, upgrade)
        : applyWatched(step, upgrade),
  };
}

/** Agents follow when all servers are of the release. */
async function areServersNew({ api, signal }: UpgradeRun['run']): Promise<boolean> {
  const found = await findObject(api, systemObject(SERVERS.kind, SERVERS.name), signal);
  return found !== undefined && workloadLag(found) === undefined;
}

/** Names up to three objects. */
function listed(objects: readonly Manifest[]): string {
  const names = objects.map(objectName);
  const more = names.length - 3;
  return more > 0 ? `${names.slice(0, 3).join(', ')} and ${String(more)} more` : names.join(', ');
}

/** Packets between pods show whether the step disturbs them. @throws upgrade/packets-lost */
async function applyWatched(step: UpgradeStepData, parts: UpgradeRun): Promise<void> {
  const { run, snapshot, target } = parts;
  const agents = new Set(agentNodes(snapshot).map(({ name }) => name));
  const nodes = (await readNodes(run.api, run.signal)).filter((node) => agents.has(node.name) && node.isReady);
  try {
    await startFlow(run, { nodes: nodes.map(({ name }) => name), image: toolsImage(target) });
    await whilePacketsFlow(run, async (watched) => actOf(UPGRADE_ACTS, step).apply(step, { ...parts, run: watched }));
  } catch (cause) {
    if (!isNetplugError(cause, 'upgrade/packets-lost')) throw cause;
    const lost = withMtuChange(cause, mtuChange(snapshot, target));
    run.onProgress(lost.message);
    await holdAgentsBack(parts);
    // Only now: until here, the next call finds the losses as well.
    await stopFlow(run);
    throw lost;
  }
}

/** Whether one node has the new agent, and has proved its network. */
async function isTried({ session, target }: UpgradeRun): Promise<boolean> {
  return (await noteOf(session, NOTES.canary)) === target.release;
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
  await writeNotes(session, { [NOTES.backup]: header.at });
  run.onProgress(`backup written and read back: ${folder}`);
}

/** Returns the backup of the upgrade that is under way; undefined when the folder has none, or an older one. */
async function findOwnBackup(parts: UpgradeRun): Promise<Backup | undefined> {
  const { session, target, folder } = parts;
  const found = await findBackup(folder);
  if (found?.header.cluster !== session.uid || found.header.to !== target.release) return undefined;
  return (await noteOf(session, NOTES.backup)) === found.header.at || isUnderWay(parts) ? found : undefined;
}

/** All pods have the release already when only the fan-out is switched on or off. */
function isUnderWay({ snapshot, target }: UpgradeRun): boolean {
  if (oldestRelease(snapshot) === target.release) return false;
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
    const record = referenceKey(referenceTo('Secret', { name: newest.record, namespace }));
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
  await writeNotes(parts.session, {
    [NOTES.verified]: parts.target.release,
    [NOTES.canary]: null,
    [NOTES.backup]: null,
  });
}

async function preparation({
  store,
  context: { signal },
}: UpgradeSession): Promise<ReturnType<typeof planPreparation>> {
  const { resources } = await store.listResources('HostEndpoint', signal);
  const policy = await store.findResource({ kind: 'GlobalNetworkPolicy', name: UPGRADE_NAMES.policy }, signal);
  return planPreparation({ endpoints: resources, policy }, UPGRADE_NAMES);
}

/** An operation of helm that a killed call has begun may go on for so long. */
const PENDING_MS = 30_000;

/** Waits for the operator of the release, and for what it rolls out. */
async function awaitOperator(parts: UpgradeRun): Promise<void> {
  const { run, target } = parts;
  await waitForWorkload(run, { kind: 'Deployment', name: OPERATOR });
  const reportedError = agentErrors(run, target.release);
  const look = async (): Promise<WaitState<undefined>> => {
    const open = await operatorLag(parts);
    return open === undefined
      ? { found: undefined }
      : { open: withReported(`operator: ${open}`, await reportedError()) };
  };
  await waitUntil(
    run,
    look,
    (open, why) =>
      new NetplugError('upgrade/not-verified', `${why} while waiting for the ${open}`, {
        hint: 'See "kubectl describe installation default" and the log of the operator; then run the command again',
      }),
  );
  await waitForInstallation(run, 'available');
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
