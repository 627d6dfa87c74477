import { VERSION } from '../../../../base/version.ts';
import type { Output } from '../../common-options.ts';
import type { Context, Status } from '../../ports.ts';
import { type ReadCluster, readClusters, refuseSameCluster } from './read-clusters.ts';
import { readFleet } from './read-fleet.ts';
import { dataOf, hazardData, isFleetRefused, renderClusters, renderFleetHazards, renderPlans } from './render-fleet.ts';

export interface ShowFleetOptions {
  readonly file: string;
  /** Longest time for one cluster, in seconds; undefined for the usual one. */
  readonly clusterTimeout: number | undefined;
  readonly output: Output;
}

/** Shows the plan of every cluster of the fleet. Returns 1 when a cluster cannot be read. */
export async function showFleetPlan(context: Context, options: ShowFleetOptions): Promise<Status> {
  const read = await readWholeFleet(context, options);
  const data = read.map((one) => ({ ...dataOf(one), ...(one.facts === undefined ? {} : { plan: one.facts.plan }) }));
  print(context, options.output, {
    text: `${renderClusters(read)}${renderPlans(read)}`,
    data: { release: VERSION, clusters: data },
  });
  return read.every(({ facts }) => facts !== undefined) ? 0 : 1;
}

/** Shows the hazards to every cluster of the fleet. Returns 1 when the upgrade of one would be refused. */
export async function showFleetPreflight(context: Context, options: ShowFleetOptions): Promise<Status> {
  const read = await readWholeFleet(context, options);
  const refused = isFleetRefused(read);
  print(context, options.output, {
    text: `${renderClusters(read)}${renderFleetHazards(read)}`,
    data: { release: VERSION, refused, clusters: read.map(hazardData) },
  });
  return refused ? 1 : 0;
}

async function readWholeFleet(
  context: Context,
  { file, clusterTimeout }: ShowFleetOptions,
): Promise<readonly ReadCluster[]> {
  const fleet = await readFleet(context, file);
  await refuseSameCluster(context, fleet, clusterTimeout);
  return readClusters(context, fleet.waves, clusterTimeout);
}

function print(
  { io }: Context,
  output: Output,
  { text, data }: { readonly text: string; readonly data: object },
): void {
  io.stdout(output === 'json' ? `${JSON.stringify(data, undefined, 2)}\n` : text);
}
