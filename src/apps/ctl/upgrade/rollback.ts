import { join } from 'node:path';
import { NetplugError, reasonOf } from '../../../base/errors.ts';
import { VERSION } from '../../../base/version.ts';
import { visibleText } from '../../../base/visible-text.ts';
import { objectName } from '../../../kube/objects/reference.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { CLUSTER_INFORMATION_ID } from '../../../model/cluster-information.ts';
import { actorOf } from '../../../plans/acts.ts';
import { carryOut, isInterrupted } from '../../../plans/carry-out.ts';
import { isEmpty, type Plan, renderPlan } from '../../../plans/plan.ts';
import { userCreated } from '../../../upgrade/host-endpoints/all-interfaces.ts';
import { NOTES } from '../../../upgrade/cluster/held-agents.ts';
import { releaseIn } from '../../../model/image-release.ts';
import { confirm, type ConfirmMode } from '../cluster/confirm.ts';
import { podRun } from '../cluster/node-pods.ts';
import { removeProof } from '../cluster/prove-network.ts';
import { findMeshRemains } from '../mesh/find-mesh-remains.ts';
import { readMeshTemplates } from '../mesh/read-mesh-templates.ts';
import type { Context, Status } from '../ports.ts';
import { executionOf } from '../run-plan.ts';
import { recordOf } from './apply-upgrade.ts';
import { type Backup, readBackup } from './backup.ts';
import { type UpgradeSession, withUpgrade } from './open-upgrade.ts';
import { isHostEndpoint, isWorkload, objectsToPutBack, planRollback, type RollbackFacts } from './plan-rollback.ts';
import { readChartRecords } from './read-charts.ts';
import { readSidecars } from './read-mesh.ts';
import { readPods } from './read-nodes.ts';
import { readInstalledObjects } from './read-objects.ts';
import { UPGRADE_NAMES } from './read-records.ts';
import { mainImage } from './roll-out.ts';
import { type RollbackAct, ROLLBACK_ACTS } from './rollback-acts.ts';
import { writeNotes } from './upgrade-run.ts';
import { stopFlow } from './watch-packets.ts';
import { withUpgradeLease } from './with-upgrade-lease.ts';

export interface RollbackOptions {
  /** Folder of the backup; that of the last upgrade unless given. */
  readonly from: string | undefined;
  readonly mode: ConfirmMode;
}

/** Puts the state of a backup back, or goes on with a rollback that was interrupted. */
export async function rollBack(context: Context, { from, mode }: RollbackOptions): Promise<Status> {
  return withUpgrade(context, async (open) => {
    if (mode !== 'apply') {
      const folder = from ?? backupFolder(open);
      const backup = await readBackup(folder);
      show(open, await readPlan(open, backup, folder));
      if (mode === 'dry-run') return 0;
      if (!(await confirm(context, `Take the cluster with ${open.cluster} back to ${backup.header.from}?`))) return 1;
    }
    // A call from elsewhere learns first that another one is at work, whatever its own folder has.
    return withUpgradeLease(open, async (session) => {
      const folder = from ?? backupFolder(session);
      const backup = await readBackup(folder);
      const plan = await readPlan(session, backup, folder);
      if (mode === 'apply') show(session, plan);
      return applyRollback(session, backup, plan);
    });
  });
}

/** Returns the folder of the backup of the last upgrade of the cluster. */
function backupFolder(session: UpgradeSession): string {
  return join(session.context.ports.machine.stateDir, 'backups', recordOf(session));
}

async function applyRollback(session: UpgradeSession, backup: Backup, plan: Plan<RollbackAct>): Promise<Status> {
  const { api, context } = session;
  const { io, ports } = context;
  const run = podRun(api, context);
  await stopFlow(run);
  // A call that was overtaken while it proved the network writes nothing more.
  await removeProof(run);
  const objects = new Map([...objectsToPutBack(backup), ...backup.charts].map((each) => [objectName(each), each]));
  const name = recordOf(session, 'rollback');
  const execution = executionOf(context, { name, actor: actorOf(ROLLBACK_ACTS, { session, run, objects }) }, io.stdout);
  // The plan has what is left of an interrupted rollback, and of whatever has happened since.
  if (await isInterrupted(execution)) io.stderr('an interrupted rollback of this cluster goes on\n');
  if (!isEmpty(plan)) await carryOut(execution, plan);
  await writeNotes(session, { [NOTES.backup]: null, [NOTES.canary]: null, [NOTES.verified]: null });
  for (const each of [name, recordOf(session)]) await ports.planRecords.remove(each);
  io.stdout(`the cluster has release ${backup.header.from} again; pods kept running\n`);
  return 0;
}

function show({ context: { io }, cluster }: UpgradeSession, plan: Plan<RollbackAct>): void {
  io.stdout(`cluster: ${cluster}\n`);
  // Names of workloads are of users.
  for (const note of plan.notes) io.stdout(`${visibleText(note)}\n`);
  io.stdout(isEmpty(plan) ? 'nothing is left to do: the cluster is as in the backup\n' : renderPlan(plan));
}

/** Compares the cluster with the backup. @throws upgrade/refused, store/* */
async function readPlan(
  { api, store, uid, context: { signal } }: UpgradeSession,
  backup: Backup,
  folder: string,
): Promise<Plan<RollbackAct>> {
  const policy = { kind: 'GlobalNetworkPolicy', name: UPGRADE_NAMES.policy } as const;
  const facts: RollbackFacts = {
    objects: await readInstalledObjects(api, await api.servedKinds(signal), signal),
    pods: await readPods(api, signal),
    charts: (await readChartRecords(api, signal)).secrets,
    hostEndpoints: (await store.listResources('HostEndpoint', signal)).resources,
    hasPolicy: (await store.findResource(policy, signal)) !== undefined,
    cluster: await store.findResource(CLUSTER_INFORMATION_ID, signal),
    mesh: await readRollbackMesh(api, signal),
    folder,
  };
  refuseBeyondReturn(backup, uid, facts);
  return planRollback(backup, facts);
}

/** Reads what a mesh has of netplug, or why that cannot be read. */
export async function readRollbackMesh(api: OrchApi, signal: AbortSignal): Promise<RollbackFacts['mesh']> {
  try {
    return {
      ...(await findMeshRemains(api, signal)),
      templates: await readMeshTemplates(api, { ifUnreadable: 'omit' }, signal),
      sidecars: await readSidecars(api, {}, signal),
    };
  } catch (cause) {
    signal.throwIfAborted();
    // Objects of others must not keep anyone from going back.
    if (!(cause instanceof NetplugError)) throw cause;
    return { unread: reasonOf(cause) };
  }
}

/** @throws upgrade/refused */
function refuseBeyondReturn({ header, records }: Backup, uid: string, { objects, hostEndpoints }: RollbackFacts): void {
  if (header.cluster !== undefined && header.cluster !== uid) {
    throw rollbackRefused(
      `the backup is of cluster ${header.cluster}, and this one is ${uid}`,
      'Name the backup of this cluster, or the kubeconfig of that one',
    );
  }
  const known = [header.from, header.to];
  const foreign = objects
    .filter(isWorkload)
    .map((object) => ({ name: objectName(object), release: releaseIn(mainImage(object)) }))
    .find(({ release }) => release !== undefined && !known.includes(release));
  if (foreign !== undefined) {
    throw rollbackRefused(
      `${foreign.name} has release ${foreign.release ?? ''}, and the backup is from before ${header.to}`,
    );
  }
  if (header.to !== VERSION)
    throw rollbackRefused(`the backup is of an upgrade to ${header.to}, and this tool is ${VERSION}`);
  const before = userCreated(records.resources.filter(isHostEndpoint));
  const gone = before.find((each) => hostEndpoints.every(({ metadata }) => metadata.name !== each.metadata.name));
  if (gone !== undefined) {
    throw rollbackRefused(
      `HostEndpoint "${gone.metadata.name}" has been replaced or deleted since`,
      'Undo "netplugctl host-endpoints migrate" with its option --undo first',
    );
  }
}

function rollbackRefused(why: string, hint = 'Use the tool and a backup of that release'): NetplugError {
  return new NetplugError('upgrade/refused', `Cannot roll back: ${why}`, { hint });
}
