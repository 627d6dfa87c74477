// 64 processes that want an address of one node's block at the same moment, and how naive ones fare.
import { type Arena, newPods, openArena } from '../arena.ts';
import type { Contestant } from '../contestants.ts';
import { startNaiveClaimers } from '../naive-claimers.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const PROCESSES = 64;
const ROUNDS = 5;
const WHAT = `claims of ${String(PROCESSES)} processes on one block`;
/** A block for every contestant, each with more addresses than processes. */
const POOL = { name: 'claims', cidr: '10.70.0.0/23', blockSize: 25 };
const NAIVE = { pool: 'naive', block: '10.71.0.0/25', processes: PROCESSES };

export const measureClaims: MeasureRow = async ({ contestants }) => {
  const netplugs = contestants.filter((name) => name !== 'ptp');
  await using arena = await openArena({ contestants: netplugs, namespaces: PROCESSES });
  await arena.node.seedPool(POOL.name, POOL.cidr, { blockSize: POOL.blockSize });
  await using naive = await startNaiveClaimers(arena.node, NAIVE);
  const claimers = arena.contestants.map((contestant) => addressesOnly(arena, contestant));
  for (const claimer of claimers) await claimInOneBatch(arena, claimer);

  const rates = new Map<string, number[]>([...claimers.map(({ name }) => name), 'naive'].map((name) => [name, []]));
  let attempts = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const claimer of claimers) rates.get(claimer.name)?.push(await claimInOneBatch(arena, claimer));
    const claimed = await naive.claim();
    rates.get('naive')?.push((1000 * PROCESSES) / claimed.ms);
    attempts += claimed.attempts;
  }
  return { figures: figuresOf(rates, attempts / ROUNDS) };
};

/** netplug-ipam alone, without a link for the pod. */
function addressesOnly(arena: Arena, contestant: Contestant): Contestant {
  const ipam = { ...contestant.conf.ipam, ipv4_pools: [POOL.name] };
  return { ...contestant, plugin: `${arena.node.cniPath}/netplug-ipam`, conf: { ...contestant.conf, ipam } };
}

/** Claims per second; what was claimed is free afterwards. */
async function claimInOneBatch(arena: Arena, claimer: Contestant): Promise<number> {
  const pods = newPods(arena, PROCESSES);
  const { ms } = await arena.call(claimer, 'ADD', { pods, atOnce: PROCESSES });
  await arena.call(claimer, 'DEL', { pods, atOnce: PROCESSES });
  return (1000 * PROCESSES) / ms;
}

function figuresOf(rates: ReadonlyMap<string, readonly number[]>, attempts: number): Figure[] {
  const median = (name: string): number => quantile(rates.get(name) ?? [], 0.5);
  return [
    ...[...rates.keys()].map((name) => ({
      id: `claims.rate.${name}`,
      what: `${WHAT}, ${name}`,
      value: median(name),
      unit: '/s',
    })),
    { id: 'claims.attempts.naive', what: `${WHAT}, naive writes per claim`, value: attempts / PROCESSES, unit: '' },
    ...[...rates.keys()]
      .filter((name) => name !== 'naive')
      .flatMap((name) =>
        ratio({ id: `claims.${name}`, what: `${WHAT}, rate of ${name} / naive` }, median(name), median('naive')),
      ),
  ];
}
