import { counted } from '../../../../base/counted.ts';
import { hasErrors } from '../../../../checks/check.ts';
import { countFindings } from '../../render-findings.ts';
import { renderHazards } from '../render-hazards.ts';
import { renderUpgradePlan, shownInstallation } from '../../../../upgrade/cluster/render-upgrade.ts';
import type { Fleet, ClusterOutcome, ClusterStanding } from '../../../../upgrade/fleet/fleet.ts';
import { refusalOf } from '../../../../upgrade/fleet/judge-wave.ts';
import { renderTable } from '../../table.ts';
import type { ReadCluster } from './read-clusters.ts';

const NOTHING = '-';

/** Returns a word for what a cluster was found to be. */
export function wordOf(standing: ClusterStanding): string {
  const words: Readonly<Record<ClusterStanding['kind'], string>> = {
    verified: 'at target',
    unverified: 'not verified',
    interrupted: 'interrupted',
    behind: refusalOf(standing) === undefined ? 'to upgrade' : 'blocked',
    unreadable: 'unreadable',
  };
  return words[standing.kind];
}

/** Returns what is known of a cluster, as JSON has it. */
export function dataOf({ cluster, wave, standing, facts }: ReadCluster): Readonly<Record<string, unknown>> {
  const reason = refusalOf(standing);
  return {
    wave,
    cluster: cluster.name,
    state: wordOf(standing),
    ...(reason === undefined ? {} : { reason }),
    ...(facts === undefined
      ? {}
      : { installed: shownInstallation(facts.installed), nodes: facts.snapshot.nodes.length }),
  };
}

/** Renders a line for each cluster. */
export function renderClusters(read: readonly ReadCluster[]): string {
  const rows = read.map(({ cluster, wave, standing, facts }) => [
    wave,
    cluster.name,
    wordOf(standing),
    facts?.installed.from ?? NOTHING,
    facts?.installed.method ?? NOTHING,
    facts?.installed.datastore ?? NOTHING,
    facts === undefined ? NOTHING : String(facts.snapshot.nodes.length),
    facts === undefined ? NOTHING : facts.hazards.length === 0 ? 'none' : countFindings(facts.hazards),
  ]);
  const titles = ['WAVE', 'CLUSTER', 'STATE', 'RELEASE', 'METHOD', 'DATASTORE', 'NODES', 'HAZARDS'];
  return renderTable(titles, rows);
}

/** Renders the plan of each cluster that does not have the target. */
export function renderPlans(read: readonly ReadCluster[]): string {
  return sections(read, ({ standing, facts }) =>
    facts === undefined || standing.kind === 'verified'
      ? undefined
      : renderUpgradePlan(facts.plan, facts.installed, facts.target),
  );
}

/** Renders the hazards of each cluster that has some. */
export function renderFleetHazards(read: readonly ReadCluster[]): string {
  return sections(read, ({ facts }) =>
    facts === undefined || facts.hazards.length === 0 ? undefined : renderHazards(facts.hazards),
  );
}

function sections(read: readonly ReadCluster[], textOf: (one: ReadCluster) => string | undefined): string {
  return read
    .flatMap((one) => {
      const text =
        textOf(one) ?? (one.standing.kind === 'unreadable' ? `cannot be read: ${one.standing.reason}\n` : undefined);
      return text === undefined ? [] : [`\n${one.wave} / ${one.cluster.name}\n${text}`];
    })
    .join('');
}

/** Whether any cluster of the fleet may not be upgraded as it is. */
export function isFleetRefused(read: readonly ReadCluster[]): boolean {
  return read.some(({ standing }) => refusalOf(standing) !== undefined);
}

/** The hazards of a cluster as JSON, with what the user accepts. */
export function hazardData(one: ReadCluster): Readonly<Record<string, unknown>> {
  const { facts, cluster } = one;
  if (facts === undefined) return dataOf(one);
  return { ...dataOf(one), blocked: hasErrors(facts.hazards), accepted: cluster.accept, hazards: facts.hazards };
}

const RESULTS: Readonly<Record<ClusterOutcome['kind'], string>> = {
  skipped: 'at target',
  upgraded: 'upgraded',
  failed: 'failed',
  refused: 'refused',
  'not-begun': 'not begun',
};

export interface Summary {
  readonly release: string;
  /** Whether every cluster that was asked for has the release and was verified. */
  readonly ok: boolean;
  readonly clusters: readonly {
    readonly wave: string;
    readonly cluster: string;
    readonly result: string;
    readonly reason?: string;
  }[];
}

export function summaryOf(
  { waves }: Fleet,
  outcomes: ReadonlyMap<string, ClusterOutcome>,
  { release, ok }: Pick<Summary, 'release' | 'ok'>,
): Summary {
  return {
    release,
    ok,
    clusters: waves.flatMap((wave) =>
      wave.clusters.map(({ name }) => {
        const outcome = outcomes.get(name) ?? { kind: 'not-begun' };
        const reason = 'reason' in outcome ? { reason: outcome.reason } : {};
        return { wave: wave.name, cluster: name, result: RESULTS[outcome.kind], ...reason };
      }),
    ),
  };
}

export function renderSummary({ release, clusters }: Summary): string {
  const rows = clusters.map(({ wave, cluster, result, reason = '' }) => [wave, cluster, result, firstLine(reason)]);
  const over = clusters.filter(({ result }) => result === RESULTS.upgraded || result === RESULTS.skipped).length;
  const all = counted(clusters.length, 'cluster');
  return `${renderTable(['WAVE', 'CLUSTER', 'RESULT', 'REASON'], rows)}${String(over)} of ${all} at ${release}\n`;
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? '';
}
