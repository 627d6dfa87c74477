import type { Fleet, FleetCluster, FleetWave, ClusterOutcome, ClusterStanding } from './fleet.ts';
import { judgeWave } from './judge-wave.ts';
import { runWave } from './run-wave.ts';

/** Functions with which the waves act. */
export interface FleetRun {
  /** Reads the clusters of a wave as they are now. Does not reject for a cluster that cannot be read. */
  readonly look: (wave: FleetWave) => Promise<ReadonlyMap<string, ClusterStanding>>;
  /** Upgrades one cluster and verifies it. Does not reject. */
  readonly upgrade: (cluster: FleetCluster) => Promise<ClusterOutcome>;
  /** Receives each wave that begins, with the clusters that are upgraded, and each that does not. */
  readonly onWave: (wave: FleetWave, decision: 'begin' | 'over' | 'refused', clusters: readonly string[]) => void;
}

/**
 * Upgrades wave by wave and returns what became of each cluster. A wave begins only when every cluster of the one before it is
 * verified. Nothing is remembered between runs: each run looks at the clusters, and skips those that are verified.
 */
export async function runFleet(
  { waves }: Fleet,
  { look, upgrade, onWave }: FleetRun,
): Promise<ReadonlyMap<string, ClusterOutcome>> {
  const outcomes = new Map<string, ClusterOutcome>(
    waves.flatMap(({ clusters }) => clusters.map(({ name }) => [name, { kind: 'not-begun' }] as const)),
  );
  for (const wave of waves) {
    const verdict = judgeWave(await look(wave));
    for (const [name, outcome] of verdict.outcomes) outcomes.set(name, outcome);
    onWave(wave, verdict.decision, verdict.begin);
    if (verdict.decision === 'refused') break;
    const ran = await runWave(verdict.begin, wave, async (name) => {
      const cluster = wave.clusters.find((each) => each.name === name);
      // The names come from the same wave.
      return cluster === undefined ? { kind: 'not-begun' } : upgrade(cluster);
    });
    for (const [name, outcome] of ran) outcomes.set(name, outcome);
    if ([...ran.values()].some(({ kind }) => kind !== 'upgraded')) break;
  }
  return outcomes;
}
