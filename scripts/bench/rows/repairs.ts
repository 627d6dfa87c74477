// How long what netplug made in the kernel is missing after another program removed it, and how soon a lost peer is noticed.
import { setTimeout as sleep } from 'node:timers/promises';
import { newBgpNodes, bgpConfigurationOf, bgpNodeOf, type BgpWorldOfTest } from '../../../test/support/bgp.ts';
import { poolOf } from '../../../test/support/fixtures.ts';
import {
  ALLOW_ALL,
  becomesReachable,
  globalPolicy,
  type PolicedNode,
  type PolicedPod,
  startPolicedNode,
} from '../../../test/support/policed-node.ts';
import { until } from '../../../test/support/until.ts';
import type { MeasureRow } from '../report.ts';
import { quantile } from '../statistics.ts';

const ROUNDS = 20;
/** Between two packets. */
const INTERVAL_S = 0.002;
/** Longer than a repair takes, and short of the period of the agent, which would hide an event that is missed. */
const WATCHED_S = 3;
const BFD = { intervalMs: 300, multiplier: 3 };
const BFD_ROUNDS = 5;
const ROUTED = '10.65.3.0/26';

export const measureRepairs: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  const { openMs, closedMs } = await measureHost();
  const lostMs = await measureLostPeer();
  const figures = [
    { id: 'repairs.tables', what: 'pod open after nft flush ruleset', samples: openMs },
    { id: 'repairs.route', what: 'pod unreachable after its route was removed', samples: closedMs },
    { id: 'repairs.peer', what: 'route of a silent peer withdrawn, BFD of 3 times 300 ms', samples: lostMs },
  ];
  return {
    figures: figures.flatMap(({ id, what, samples }) => [
      { id: `${id}.p50`, what: `${what}, p50`, value: quantile(samples, 0.5), unit: 'ms' },
      {
        id: `${id}.max`,
        what: `${what}, longest of ${String(samples.length)}`,
        value: Math.max(...samples),
        unit: 'ms',
      },
    ]),
  };
};

async function measureHost(): Promise<{ openMs: number[]; closedMs: number[] }> {
  await using policed = await startPolicedNode();
  await policed.apply(ALLOW_ALL);
  const ingress = [{ action: 'Allow', source: { selector: "netplug/namespace == 'shop'" } }];
  await policed.apply(globalPolicy('shop', { selector: "netplug/namespace == 'shop'", types: ['Ingress'], ingress }));
  const server = await policed.add('shop/server');
  const friend = await policed.add('shop/friend');
  const foe = await policed.add('guests/foe');
  const [openMs, closedMs]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    await becomesReachable(friend, server, true);
    await becomesReachable(foe, server, false);
    openMs.push(await timeOpen(policed, foe, server));
    closedMs.push(await timeUnreachable(policed, friend, server));
  }
  return { openMs, closedMs };
}

/** Returns the time from the flush to the last answer; 0 where none came. */
async function timeOpen({ node }: PolicedNode, from: PolicedPod, to: PolicedPod): Promise<number> {
  let flushedMs = 0;
  const answers = await answersDuring(from, to, async () => {
    await node.exec('nft', 'flush', 'ruleset');
    flushedMs = Date.now();
  });
  return Math.max(0, (answers.at(-1) ?? 0) - flushedMs);
}

/** Returns the longest time between two answers. */
async function timeUnreachable({ node }: PolicedNode, from: PolicedPod, to: PolicedPod): Promise<number> {
  const answers = await answersDuring(from, to, async () => {
    await node.exec('ip', 'route', 'delete', `${to.address}/32`);
  });
  return Math.max(...answers.map((atMs, index) => atMs - (answers[index - 1] ?? atMs)));
}

/** Sends requests one after another, and does the work half a second later. Returns when answers came, in ms since 1970. */
async function answersDuring(from: PolicedPod, to: PolicedPod, work: () => Promise<void>): Promise<readonly number[]> {
  const count = String(WATCHED_S / INTERVAL_S);
  const pinging = from.netns
    .exec('ping', '-n', '-D', '-c', count, '-i', String(INTERVAL_S), '-W', '1', to.address)
    // Not every packet, or none, is answered.
    .catch((cause: unknown) => String((cause as { stdout?: string }).stdout));
  await sleep(500);
  await work();
  return [...(await pinging).matchAll(/^\[(\d+\.\d+)\] \d+ bytes from/gm)].map(([, seconds]) => Number(seconds) * 1000);
}

async function measureLostPeer(): Promise<number[]> {
  await using lab = await newBgpNodes(2);
  const [hub, silent] = lab.nodes;
  if (hub === undefined || silent === undefined) throw new Error('two nodes were asked for');
  const world: BgpWorldOfTest = {
    nodes: [bgpNodeOf(2), bgpNodeOf(3)],
    configurations: [bgpConfigurationOf({ nodeMeshBfd: BFD })],
    peers: [],
    pools: [poolOf('routed', '10.65.0.0/16')],
    held: { 'node-3': [ROUTED] },
  };
  const times: number[] = [];
  for (const node of lab.nodes) await node.follow(world);
  for (let round = 0; round < BFD_ROUNDS; round += 1) {
    await hub.untilRoute(ROUTED);
    const isUp = async (): Promise<boolean> =>
      ((await hub.bird.status(AbortSignal.timeout(60_000))) ?? []).some(({ bfd }) => bfd === 'Up');
    await until(isUp, 'BFD is up');
    await silent.fallSilent();
    const startMs = performance.now();
    await hub.untilNoRoute(ROUTED);
    times.push(performance.now() - startMs);
    await silent.speakAgain();
  }
  return times;
}
