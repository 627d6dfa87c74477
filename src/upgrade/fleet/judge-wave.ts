import type { ClusterOutcome, ClusterStanding } from './fleet.ts';

/** Decision on a wave, and what is known of its clusters already. */
export interface WaveVerdict {
  readonly decision: 'begin' | 'over' | 'refused';
  /** Clusters to upgrade, in their order; none unless the wave begins. */
  readonly begin: readonly string[];
  readonly outcomes: ReadonlyMap<string, ClusterOutcome>;
}

/**
 * Decides about the next wave. It begins when each of its clusters either is verified or may be upgraded: a fleet is not left with
 * a part of a wave, because of a hazard that was there before. Clusters that are verified are skipped. Pure.
 */
export function judgeWave(standings: ReadonlyMap<string, ClusterStanding>): WaveVerdict {
  const outcomes = new Map<string, ClusterOutcome>();
  const begin: string[] = [];
  for (const [name, standing] of standings) {
    const reason = refusalOf(standing);
    if (standing.kind === 'verified') outcomes.set(name, { kind: 'skipped' });
    else if (reason === undefined) begin.push(name);
    else outcomes.set(name, { kind: 'refused', reason });
  }
  if ([...outcomes.values()].some(({ kind }) => kind === 'refused')) {
    for (const name of begin) outcomes.set(name, { kind: 'not-begun' });
    return { decision: 'refused', begin: [], outcomes };
  }
  return { decision: begin.length === 0 ? 'over' : 'begin', begin, outcomes };
}

/** Returns why the upgrade of a cluster must not begin; undefined when it may. */
export function refusalOf(standing: ClusterStanding): string | undefined {
  if (standing.kind === 'unreadable') return standing.reason;
  if (standing.kind !== 'behind' || standing.blocking.length === 0) return undefined;
  return `the preflight found ${standing.blocking.join(', ')}`;
}
