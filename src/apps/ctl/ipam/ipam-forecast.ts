import { invariant, NetplugError } from '../../../base/errors.ts';
import { placesIn } from '../../../ipam/free-cidrs.ts';
import { DEFAULT_IPAM_CONFIGURATION } from '../../../model/ipam-configuration.ts';
import { decodeResource } from '../../../model/decode-resource.ts';
import { problemsError } from '../../../base/problem.ts';
import { FAMILIES, type Family } from '../../../net/address.ts';
import { formatCidr } from '../../../net/cidr.ts';
import type { Output } from '../common-options.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { adviseSize, type Advice } from './advise-size.ts';
import {
  type ForecastFacts,
  type ClusterPlan,
  forecastQuestion,
  tunnelAddresses,
} from '../../../ipam/forecast/forecast-cluster.ts';
import { type Event, type Forecast, forecast, type ForecastQuestion } from '../../../ipam/forecast/forecast.ts';
import { renderDocument } from '../render-document.ts';
import { readCluster } from './read-cluster.ts';

export interface ForecastOptions extends ClusterPlan {
  /** A pool that is not there yet. */
  readonly cidr: string | undefined;
  readonly blockSize: number | undefined;
  /** Whether what is assigned already counts. */
  readonly start: 'empty' | 'present';
  readonly output: Output;
}

/** Forecast of one address family. */
interface FamilyReport {
  readonly family: Family;
  readonly nodes: number;
  readonly addressesPerNode: number;
  readonly pools: readonly {
    readonly name: string;
    readonly cidr: string;
    readonly blockSize: number;
    readonly blocks: bigint;
    readonly blocksUsed: number;
  }[];
  readonly fits: boolean;
  readonly placed: number;
  readonly borrowed: number;
  readonly failed: number;
  readonly firstBorrowing: Event | undefined;
  readonly firstFailure: Event | undefined;
  readonly advice: Advice | undefined;
}

/** Says whether a cluster fits, and when borrowing starts. Status 1 when it does not fit. */
export async function ipamForecast(context: Context, options: ForecastOptions): Promise<Status> {
  const { facts, pool } = await factsFor(context, options);
  const plan = { ...options, pool };
  const reports: FamilyReport[] = [];
  for (const family of FAMILIES) {
    const question = isMeant(facts, plan, family) ? forecastQuestion(facts, plan, family) : undefined;
    if (question === undefined) continue;
    reports.push(reportOf(question, await forecast(question, context.signal), { ...plan, family }));
  }
  if (reports.length === 0) {
    throw new NetplugError('ipam/exhausted', 'Cannot forecast: no pool may serve a node without labels', {
      hint: 'Name a pool with --pool, or one that is not there yet with --cidr',
    });
  }
  context.io.stdout(renderDocument({ families: reports }, options.output, () => reports.map(render).join('\n')));
  return reports.every(({ fits }) => fits) ? 0 : 1;
}

/** A pool has one family; to ask for it in the other one would be refused. */
function isMeant({ pools }: ForecastFacts, { pool }: ClusterPlan, family: Family): boolean {
  const named = pools.find(({ metadata }) => metadata.name === pool);
  return named === undefined || named.spec.cidr.includes(':') === (family === 6);
}

const PLANNED_POOL = 'planned';

async function factsFor(
  context: Context,
  { cidr, blockSize, pool, start }: ForecastOptions,
): Promise<{ facts: ForecastFacts; pool: string | undefined }> {
  if (cidr !== undefined) {
    const config = DEFAULT_IPAM_CONFIGURATION;
    return {
      facts: { pools: [plannedPool(cidr, blockSize)], reservations: [], config, blocks: [], nodes: [] },
      pool: PLANNED_POOL,
    };
  }
  return withStore(context, 'read', async (store) => {
    const cluster = await readCluster(context, store);
    return { facts: start === 'present' ? cluster : { ...cluster, blocks: [], nodes: [] }, pool };
  });
}

/** @throws resource/invalid when there cannot be such a pool */
function plannedPool(cidr: string, blockSize: number | undefined): ForecastFacts['pools'][number] {
  const spec = { cidr, ...(blockSize === undefined ? {} : { blockSize }) };
  const decoded = decodeResource({
    apiVersion: 'netplug.io/v3',
    kind: 'IPPool',
    metadata: { name: PLANNED_POOL },
    spec,
  });
  if ('problems' in decoded) throw problemsError('the planned pool', decoded.problems, 'resource/invalid');
  invariant(decoded.resource.kind === 'IPPool', 'an IPPool is decoded as one');
  return decoded.resource;
}

function reportOf(
  question: ForecastQuestion,
  { blocksUsed, ...said }: Forecast,
  { family, podsPerNode }: { readonly family: Family; readonly podsPerNode: number },
): FamilyReport {
  const { nodes } = question;
  const used = new Set(nodes.flatMap(({ pools }) => pools));
  const addressesPerNode = podsPerNode + tunnelAddresses([...used]);
  return {
    family,
    nodes: nodes.length,
    addressesPerNode,
    pools: [...used].map((pool) => ({
      name: pool.name,
      cidr: formatCidr(pool.cidr),
      blockSize: pool.stored.value.spec.blockSize,
      blocks: placesIn(pool),
      blocksUsed: blocksUsed.get(pool.name) ?? 0,
    })),
    fits: said.failed === 0,
    ...said,
    advice: adviseSize(family, { nodes: nodes.length, addressesPerNode }),
  };
}

function render(report: FamilyReport): string {
  const { family, nodes, addressesPerNode, pools, fits, failed, borrowed, firstBorrowing, firstFailure, advice } =
    report;
  const facts: [string, string][] = [
    ['fits', fits ? 'yes' : `no: ${String(failed)} addresses are missing`],
    ...pools.map(({ name, cidr, blockSize, blocks, blocksUsed }): [string, string] => [
      'blocks',
      `${String(blocksUsed)} of ${String(blocks)} used in pool "${name}" ${cidr}, blocks of /${String(blockSize)}`,
    ]),
    [
      'borrowing',
      firstBorrowing === undefined
        ? 'never'
        : `from ${eventText(firstBorrowing)} on; ${String(borrowed)} addresses are borrowed in the end`,
    ],
    ['first failure', firstFailure === undefined ? 'none' : eventText(firstFailure)],
    [
      'recommended',
      advice === undefined
        ? 'no pool is large enough'
        : `blocks of /${String(advice.blockSize)}, ${String(advice.blocksPerNode)} per node, in a pool of /${String(advice.poolPrefix)} or larger`,
    ],
  ];
  const lines = facts.map(([name, text]) => `  ${`${name}:`.padEnd(15)}${text}\n`);
  return `IPv${String(family)}: ${String(nodes)} nodes with ${String(addressesPerNode)} addresses each\n${lines.join('')}`;
}

function eventText({ node, nodeNumber, addressNumber }: Event): string {
  return `node ${String(nodeNumber)} ("${node}"), its address ${String(addressNumber)}`;
}
