import { forEachLimit } from '../../../../base/for-each-limit.ts';
import { NetplugError, toNetplugError } from '../../../../base/errors.ts';
import type { Finding } from '../../../../checks/check.ts';
import { blockingChecks, findHazards } from '../../../../upgrade/cluster/checks/preflight.ts';
import { detectInstallation } from '../../../../upgrade/cluster/detect-installation.ts';
import { NOTES } from '../../../../upgrade/cluster/held-agents.ts';
import { isAtTarget } from '../../../../upgrade/cluster/plan-upgrade.ts';
import type { ClusterSnapshot, DetectedInstallation } from '../../../../upgrade/cluster/snapshot.ts';
import type { UpgradeTarget } from '../../../../upgrade/cluster/target.ts';
import type { UpgradePlan } from '../../../../upgrade/cluster/upgrade-action.ts';
import type { Fleet, FleetCluster, ClusterStanding } from '../../../../upgrade/fleet/fleet.ts';
import type { Context } from '../../ports.ts';
import { limitTo } from '../../time-limit.ts';
import { findInterrupted } from '../apply-upgrade.ts';
import { targetReader, withUpgrade } from '../open-upgrade.ts';
import { readSnapshot } from '../read-snapshot.ts';
import { upgradePlan } from '../upgrade-acts.ts';
import { noteOf } from '../upgrade-run.ts';
import { judgeRelease } from '../verify.ts';
import { contextOf } from './cluster-context.ts';

/** Clusters that are read at once. */
const READS = 4;
/** Longest time to read one cluster unless given. */
export const READ_SECONDS = 120;
export const LIMIT_FLAG = '--cluster-timeout';

/** A cluster of a fleet as it was read; undefined parts could not be. */
export interface ReadCluster {
  readonly cluster: FleetCluster;
  readonly wave: string;
  readonly standing: ClusterStanding;
  readonly facts: FleetFacts | undefined;
}

export interface FleetFacts {
  readonly snapshot: ClusterSnapshot;
  readonly target: UpgradeTarget;
  readonly installed: DetectedInstallation;
  readonly hazards: readonly Finding[];
  readonly plan: UpgradePlan;
}

/** Reads clusters. One that cannot be read has its reason in place of facts. */
export async function readClusters(
  context: Context,
  waves: Fleet['waves'],
  seconds = READ_SECONDS,
): Promise<readonly ReadCluster[]> {
  const all = waves.flatMap((wave) => wave.clusters.map((cluster) => ({ cluster, wave: wave.name })));
  const read = new Map<FleetCluster, ReadCluster>();
  await forEachLimit(all, READS, async (one) => {
    const { cluster } = one;
    const signal = limitTo(seconds, context.stopped, LIMIT_FLAG);
    try {
      read.set(cluster, { ...one, ...(await readCluster(contextOf(context, cluster, signal), cluster)) });
    } catch (cause) {
      context.stopped.throwIfAborted();
      const { message } = toNetplugError(cause);
      read.set(cluster, { ...one, standing: { kind: 'unreadable', reason: message }, facts: undefined });
    }
  });
  return all.flatMap(({ cluster }) => read.get(cluster) ?? []);
}

async function readCluster(
  context: Context,
  cluster: FleetCluster,
): Promise<{ readonly standing: ClusterStanding; readonly facts: FleetFacts }> {
  const targetOf = await targetReader(context, cluster);
  return withUpgrade(
    context,
    async (session) => {
      const snapshot = await readSnapshot(session, targetOf, cluster.method);
      const target = targetOf(snapshot);
      const hazards = findHazards(snapshot, target);
      const facts = {
        snapshot,
        target,
        hazards,
        installed: detectInstallation(snapshot),
        plan: upgradePlan(snapshot, target),
      };
      if ((await findInterrupted(session)) !== undefined) return { standing: { kind: 'interrupted' }, facts };
      if (isAtTarget(snapshot, target)) {
        const isNoted = (await noteOf(session, NOTES.verified)) === target.release;
        const isSound = judgeRelease(snapshot, target).every(({ isOk }) => isOk);
        return { standing: { kind: isNoted && isSound ? 'verified' : 'unverified' }, facts };
      }
      return { standing: { kind: 'behind', blocking: blockingChecks(hazards, cluster.accept) }, facts };
    },
    'read',
  );
}

/** Refuses two entries of the same cluster: they would upgrade it at the same time. @throws cli/usage */
export async function refuseSameCluster(context: Context, { waves }: Fleet, seconds = READ_SECONDS): Promise<void> {
  const clusters = waves.flatMap((wave) => wave.clusters);
  const uids = new Map<FleetCluster, string>();
  await forEachLimit(clusters, READS, async (cluster) => {
    const own = contextOf(context, cluster, limitTo(seconds, context.stopped, LIMIT_FLAG));
    // What cannot be read is found unreadable in its wave.
    const uid = await withUpgrade(own, async (session) => session.uid, 'read').catch(() => undefined);
    context.stopped.throwIfAborted();
    if (uid !== undefined) uids.set(cluster, uid);
  });
  for (const [index, cluster] of clusters.entries()) {
    const uid = uids.get(cluster);
    const other = uid === undefined ? undefined : clusters.slice(0, index).find((each) => uids.get(each) === uid);
    if (other === undefined) continue;
    throw new NetplugError(
      'cli/usage',
      `Cannot upgrade the fleet: "${other.name}" and "${cluster.name}" are one cluster, whose namespace kube-system has the uid ${uid ?? ''}`,
      { hint: 'Name each cluster once' },
    );
  }
}
