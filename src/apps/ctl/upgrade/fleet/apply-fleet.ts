import { counted } from '../../../../base/counted.ts';
import { NetplugError, toNetplugError } from '../../../../base/errors.ts';
import { reportError } from '../../../../base/report-error.ts';
import { VERSION } from '../../../../base/version.ts';
import {
  type Fleet,
  type FleetCluster,
  type FleetWave,
  isOver,
  type ClusterOutcome,
} from '../../../../upgrade/fleet/fleet.ts';
import { runFleet } from '../../../../upgrade/fleet/run-fleet.ts';
import { confirm, type ConfirmMode } from '../../cluster/confirm.ts';
import type { Output } from '../../common-options.ts';
import type { Context, Status } from '../../ports.ts';
import { limitTo } from '../../time-limit.ts';
import { applyUpgrade, ensureVerified } from '../apply-upgrade.ts';
import { contextOf } from './cluster-context.ts';
import { LIMIT_FLAG, readClusters, refuseSameCluster } from './read-clusters.ts';
import { readFleet } from './read-fleet.ts';
import { renderClusters, renderSummary, summaryOf } from './render-fleet.ts';

/** Longest time for one cluster unless given. */
export const UPGRADE_SECONDS = 3600;

export interface ApplyFleetOptions {
  readonly file: string;
  /** Name of the last wave that is upgraded; undefined for all. */
  readonly through: string | undefined;
  /** Longest time for one cluster, in seconds; undefined for the time that each purpose has. */
  readonly clusterTimeout: number | undefined;
  readonly mode: ConfirmMode;
  readonly output: Output;
}

/** Upgrades the clusters of a fleet wave by wave. Returns 1 unless every cluster that was asked for is verified. */
export async function applyFleet(context: Context, options: ApplyFleetOptions): Promise<Status> {
  const { io } = context;
  const { clusterTimeout } = options;
  const fleet = upTo(await readFleet(context, options.file), options);
  await refuseSameCluster(context, fleet, clusterTimeout);
  if (options.mode === 'dry-run') {
    io.stdout(renderClusters(await readClusters(context, fleet.waves, clusterTimeout)));
    return 0;
  }
  const clusters = fleet.waves.reduce((sum, wave) => sum + wave.clusters.length, 0);
  const question = `Upgrade ${counted(clusters, 'cluster')} in ${counted(fleet.waves.length, 'wave')} to ${VERSION}?`;
  if (options.mode === 'ask' && !(await confirm({ ...context, signal: context.stopped }, question))) return 1;
  const outcomes = await runFleet(fleet, {
    look: async (wave) => {
      const read = await readClusters(context, [wave], clusterTimeout);
      io.stderr(renderClusters(read));
      return new Map(read.map(({ cluster, standing }) => [cluster.name, standing]));
    },
    upgrade: async (cluster) => upgradeCluster(context, cluster, options),
    onWave: (wave, decision, names) => {
      io.stderr(waveLine(wave, decision, names));
    },
  });
  const ok = [...outcomes.values()].every(isOver);
  const summary = summaryOf(fleet, outcomes, { release: VERSION, ok });
  io.stdout(options.output === 'json' ? `${JSON.stringify(summary, undefined, 2)}\n` : renderSummary(summary));
  context.stopped.throwIfAborted();
  return ok ? 0 : 1;
}

/** Leaves out the waves after the last one that is asked for. @throws cli/usage */
function upTo({ waves }: Fleet, { through, file }: Pick<ApplyFleetOptions, 'through' | 'file'>): Fleet {
  if (through === undefined) return { waves };
  const last = waves.findIndex(({ name }) => name === through);
  if (last >= 0) return { waves: waves.slice(0, last + 1) };
  throw new NetplugError('cli/usage', `Cannot upgrade through wave "${through}": "${file}" has no such wave`, {
    hint: `It has ${waves.map(({ name }) => `"${name}"`).join(', ')}`,
  });
}

async function upgradeCluster(
  context: Context,
  cluster: FleetCluster,
  { clusterTimeout = UPGRADE_SECONDS }: Pick<ApplyFleetOptions, 'clusterTimeout'>,
): Promise<ClusterOutcome> {
  const own = contextOf(context, cluster, limitTo(clusterTimeout, context.stopped, LIMIT_FLAG));
  try {
    await applyUpgrade(own, { ...cluster, backup: undefined, mode: 'apply' });
    await ensureVerified(own, cluster);
    return { kind: 'upgraded' };
  } catch (cause) {
    reportError(own.io, cause);
    return { kind: 'failed', reason: toNetplugError(cause).message };
  }
}

function waveLine({ name }: FleetWave, decision: 'begin' | 'over' | 'refused', clusters: readonly string[]): string {
  if (decision === 'over') return `wave ${name}: every cluster is at the target\n`;
  if (decision === 'refused') return `wave ${name}: does not begin, because a cluster of it cannot be upgraded\n`;
  return `wave ${name}: begins with ${clusters.join(', ')}\n`;
}
