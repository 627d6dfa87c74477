// 64 processes that want an address of one node's block at the same moment, and how naive ones fare.
import { type Testbed, newPods, openTestbed } from '../testbed.ts';
import type { Candidate } from '../candidates.ts';
import { startNaiveClaimers } from '../naive-claimers.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const PROCESSES = 64;
const ROUNDS = 5;
const WHAT = `claims of ${String(PROCESSES)} processes on one block`;
/** A block for every candidate, each with more addresses than processes. */
const POOL = { name: 'claims', cidr: '10.70.0.0/23', blockSize: 25 };
const NAIVE = { pool: 'naive', block: '10.71.0.0/25', processes: PROCESSES };

export const measureClaims: MeasureRow = async ({ candidates }) => {
  const netplugs = candidates.filter((name) => name !== 'ptp');
  await using testbed = await openTestbed({ candidates: netplugs, namespaces: PROCESSES });
  await testbed.node.seedPool(POOL.name, POOL.cidr, { blockSize: POOL.blockSize });
  await using naive = await startNaiveClaimers(testbed.node, NAIVE);
  const claimers = testbed.candidates.map((candidate) => addressesOnly(testbed, candidate));
  for (const claimer of claimers) await claimInOneBatch(testbed, claimer);

  const rates = new Map<string, number[]>([...claimers.map(({ name }) => name), 'naive'].map((name) => [name, []]));
  let attempts = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const claimer of claimers) rates.get(claimer.name)?.push(await claimInOneBatch(testbed, claimer));
    const claimed = await naive.claim();
    rates.get('naive')?.push((1000 * PROCESSES) / claimed.ms);
    attempts += claimed.attempts;
  }
  return { figures: figuresOf(rates, attempts / ROUNDS) };
};

/** netplug-ipam alone, without a link for the pod. */
function addressesOnly(testbed: Testbed, candidate: Candidate): Candidate {
  const ipam = { ...candidate.conf.ipam, ipv4_pools: [POOL.name] };
  return { ...candidate, plugin: `${testbed.node.cniPath}/netplug-ipam`, conf: { ...candidate.conf, ipam } };
}

/** Claims per second; what was claimed is free afterwards. */
async function claimInOneBatch(testbed: Testbed, claimer: Candidate): Promise<number> {
  const pods = newPods(testbed, PROCESSES);
  const { ms } = await testbed.call(claimer, 'ADD', { pods, atOnce: PROCESSES });
  await testbed.call(claimer, 'DEL', { pods, atOnce: PROCESSES });
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
