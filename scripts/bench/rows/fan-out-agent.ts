// What one agent costs with the fan-out and without, on a real API server: bytes while it is idle, CPU while pods come and go
// elsewhere, memory; and ADD while its server is stopped. What many agents cost the API server is computed from what one agent and one
// server were seen to receive: they all receive the same.
import { setTimeout as sleep } from 'node:timers/promises';
import { openOrchStore } from '../../../src/datastore/orch/orch-store.ts';
import { type Agent, startAgent } from '../../../test/support/agent.ts';
import { addedWatches, type Watches, watchesOf } from '../../../test/support/api-traffic.ts';
import { type FannedOutNode, type FannedOutServer, startFannedOutNode } from '../../../test/support/fanned-out-node.ts';
import { until } from '../../../test/support/until.ts';
import { inTurn } from '../attach-rounds.ts';
import type { Run } from '../launcher.ts';
import { cpuMsOf, memoryOf } from '../process-usage.ts';
import { FIRST_SINGLE, openRemotePods, type RemotePods } from '../remote-pods.ts';
import { type Figure, type LatencyRow, type MeasureRow, ratio } from '../report.ts';
import { openRuntimeCaller, pairs, type RuntimeCaller } from '../runtime-caller.ts';
import { quantile, summarise } from '../statistics.ts';

const PODS = 10_000;
const POLICIES = 1000;
const SIZE = `${String(PODS)} endpoints and ${String(POLICIES)} policies`;
/** What an API server and an agent on two cores still do in time. */
const CHURN_PER_SECOND = 20;
const CHURN_S = 20;
const IDLE_MS = 60_000;
const SETTLE_MS = 20_000;
const TURN = 50;
const WARM_UP = 50;
/** From then on the agent knows that no server answers. */
const LOST_MS = 16_000;
/** A cluster for which the load of the API server is computed. */
const LARGE = { agents: 1000, servers: 3 };
const OUTAGE_MS = 60_000;
const AFTER_OUTAGE_MS = 10_000;
const RESTARTS = 3;
const MOVES = 3;

type Mode = 'without' | 'with';
/** What the one server does while pods are added. */
type Way = 'with' | 'hung' | 'lost';

export const measureFanOutAgent: MeasureRow = async ({ samples, candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const parts = scope.use(await startFannedOutNode());
  const { server, node } = parts;
  const admin = scope.use(openOrchStore({ from: 'file', path: server.kubeconfig }));
  const remote = openRemotePods(admin);
  await remote.growTo(PODS);
  await remote.addPolicies(POLICIES);
  await server.putPod({ namespace: 'shop', name: 'beside', node: node.name });
  const ofNone = await watchesOf(server);
  const typha = await parts.startServer('typha-1-a', 5473);
  scope.defer(async () => typha.stop('KILL'));
  const ofServer = await watchesOf(server);
  const figures: Figure[] = [];
  const latencies: LatencyRow[] = [];
  const costs = new Map<Mode, Costs>();
  for (const mode of ['without', 'with'] as const) {
    await using agent = await startAgent(node, { env: parts.agentEnv(mode === 'with' ? 'on' : 'off') });
    await using calls = new AsyncDisposableStack();
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=beside';
    const caller = await openRuntimeCaller(node, agent, { scope: calls, args, conf: parts.conf, name: mode });
    await pairs(caller, WARM_UP);
    const measured = await measureMode(parts, { mode, agent, remote, typha });
    const watches = watchesBetween(ofServer, await watchesOf(server));
    figures.push(...measured.figures);
    if (mode === 'with') {
      const adds = await measureAdds(caller, typha, samples);
      latencies.push(...adds.latencies);
      figures.push(...adds.figures);
    }
    const outage = await afterOutage(parts, typha);
    costs.set(mode, { ...measured, watches, outage });
    if (mode === 'with') figures.push(await measureMoves(parts, { agent, first: typha }));
  }
  figures.push(...ofLargeCluster(costs, watchesBetween(ofNone, ofServer)));
  figures.push(await measureRestarts(parts));
  const value = (id: string): number | undefined => figures.find((each) => each.id === `fan-out-agent.${id}`)?.value;
  for (const [id, what] of [
    ['idle', 'bytes of the API a minute while it is idle'],
    ['churn', 'CPU of the agent while pods come and go elsewhere'],
    ['pss', 'memory of both processes of the agent'],
  ] as const)
    figures.push(
      ...ratio(
        { id: `fan-out-agent.${id}`, what: `${what}, with the fan-out / without` },
        value(`${id}.with`),
        value(`${id}.without`),
      ),
    );
  return { latencies, figures };
};

/** Bytes that an agent and the server received from the API, in both directions. */
interface Received {
  readonly agent: number;
  readonly server: number;
}

interface Costs {
  /** While pods came and went elsewhere, for each of them. */
  readonly perPod: Received;
  readonly watches: number;
  /** In the seconds after an outage of the API server. */
  readonly outage: Received;
}

async function receivedDuring(
  { api }: Pick<FannedOutNode, 'api'>,
  typha: FannedOutServer,
  work: () => Promise<unknown>,
): Promise<Received> {
  const before = { agent: api.bytes, server: typha.api.bytes };
  await work();
  return { agent: api.bytes - before.agent, server: typha.api.bytes - before.server };
}

async function measureMode(
  parts: FannedOutNode,
  {
    mode,
    agent,
    remote,
    typha,
  }: { readonly mode: Mode; readonly agent: Agent; readonly remote: RemotePods; readonly typha: FannedOutServer },
): Promise<Pick<Costs, 'perPod'> & { readonly figures: readonly Figure[] }> {
  const { node } = parts;
  await sleep(SETTLE_MS);
  const { agent: bytes } = await receivedDuring(parts, typha, async () => sleep(IDLE_MS));
  const before = await cpuMsOf(node, agent.pid);
  const churned = await receivedDuring(parts, typha, async () => churn(agent, remote));
  const cpuMs = (await cpuMsOf(node, agent.pid)) - before;
  await sleep(SETTLE_MS);
  const { pssMb } = await memoryOf(node, agent.pid);
  const how = mode === 'with' ? 'with the fan-out' : 'without the fan-out';
  const elsewhere = `${String(CHURN_PER_SECOND)} pods a second come and go elsewhere`;
  const pods = CHURN_S * CHURN_PER_SECOND;
  return {
    perPod: { agent: churned.agent / pods, server: churned.server / pods },
    figures: [
      figure(
        `idle.${mode}`,
        `bytes of the API a minute, idle agent ${how}`,
        (bytes * 60) / (IDLE_MS / 1000) / 1000,
        'kB',
      ),
      figure(
        `churn.${mode}`,
        `CPU of an agent ${how} while ${elsewhere}`,
        (100 * cpuMs) / (CHURN_S * 1000),
        '% of a core',
      ),
      figure(
        `churn.bytes.${mode}`,
        `bytes of the API for each of these pods, agent ${how}`,
        churned.agent / pods / 1000,
        'kB',
      ),
      figure(`pss.${mode}`, `memory of both processes of an agent ${how}, ${SIZE}`, pssMb, 'MB'),
    ],
  };
}

/** The API server is stopped for a minute; from its start until some seconds after it is ready. */
async function afterOutage(parts: FannedOutNode, typha: FannedOutServer): Promise<Received> {
  const { server } = parts;
  await server.stop();
  await sleep(OUTAGE_MS);
  const received = await receivedDuring(parts, typha, async () => {
    await server.start();
    await sleep(AFTER_OUTAGE_MS);
  });
  await sleep(SETTLE_MS);
  return received;
}

/** What all agents and servers of a large cluster cost the API server, with / without. */
function ofLargeCluster(costs: ReadonlyMap<Mode, Costs>, watchesOfServer: number): readonly Figure[] {
  const { agents, servers } = LARGE;
  const [without, fannedOut] = [costs.get('without'), costs.get('with')];
  if (without === undefined || fannedOut === undefined) return [];
  const ratioOf = (of: (each: Costs) => Received): number =>
    (servers * of(fannedOut).server + agents * of(fannedOut).agent) / (agents * of(without).agent);
  const cluster = `${String(agents)} agents and ${String(servers)} servers / ${String(agents)} agents alone`;
  return [
    figure(
      'cluster.pod',
      `bytes of the API for a pod elsewhere, ${cluster}`,
      100 * ratioOf(({ perPod }) => perPod),
      '%',
    ),
    figure(
      'cluster.watches',
      `watches that are resumed after an outage, ${cluster}`,
      (100 * (servers * watchesOfServer + agents * fannedOut.watches)) / (agents * without.watches),
      '%',
    ),
    figure(
      'cluster.outage',
      `bytes of the API in the ten seconds after an outage, ${cluster}`,
      100 * ratioOf(({ outage }) => outage),
      '%',
    ),
  ];
}

function watchesBetween(before: Watches, now: Watches): number {
  return Object.values(addedWatches(before, now)).reduce((sum, count) => sum + count, 0);
}

/** The server that the agent has loses the API, in turns: the longest time until the agent has another one. */
async function measureMoves(
  parts: FannedOutNode,
  { agent, first }: { readonly agent: Agent; readonly first: FannedOutServer },
): Promise<Figure> {
  await using scope = new AsyncDisposableStack();
  const has = async ({ name }: FannedOutServer): Promise<boolean> =>
    (await parts.status(agent)).includes(`${name} since`);
  const times: number[] = [];
  let current = first;
  for (let move = 0; move < MOVES; move += 1) {
    const next = await parts.startServer(`typha-moves-${String(move)}`, 5480 + move);
    scope.defer(async () => next.stop('KILL'));
    await until(async () => (await has(current)) || (await has(next)), 'the agent has a server');
    const [lost, other] = (await has(current)) ? [current, next] : [next, current];
    const beganMs = performance.now();
    lost.api.fallSilent();
    await until(async () => has(other), 'the agent has another server');
    times.push((performance.now() - beganMs) / 1000);
    await lost.stop('KILL');
    current = other;
  }
  return figure('moves', 'a server loses the API: its agent follows another, longest', Math.max(...times), 's');
}

/** What servers that start again take from the API server: each reads everything once. */
async function measureRestarts(parts: FannedOutNode): Promise<Figure> {
  const rssMb = async (): Promise<number> => {
    await sleep(SETTLE_MS);
    const metrics = await parts.server.kubectl('get', '--raw', '/metrics');
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1]) / 1e6;
  };
  const start = async (number: number): Promise<FannedOutServer> =>
    parts.startServer(`typha-again-${String(number)}`, 5490 + number);
  let typha = await start(0);
  const before = await rssMb();
  for (let restart = 1; restart <= RESTARTS; restart += 1) {
    await typha.stop('KILL');
    typha = await start(restart);
  }
  const after = await rssMb();
  await typha.stop('KILL');
  const what = `memory of the API server after ${String(RESTARTS)} restarts of a server / before, ${SIZE}`;
  return figure('restarts', what, after / before, '');
}

/** Until the agent has applied all of it. */
async function churn(agent: Agent, remote: RemotePods): Promise<void> {
  const startMs = performance.now();
  for (let second = 0; second < CHURN_S; second += 1) {
    const numbers = Array.from(
      { length: CHURN_PER_SECOND },
      (_, index) => FIRST_SINGLE + second * CHURN_PER_SECOND + index,
    );
    await Promise.all(numbers.map(async (number) => remote.start(number)));
    await Promise.all(numbers.map(async (number) => remote.end(number)));
    await sleep(Math.max(0, startMs + (second + 1) * 1000 - performance.now()));
  }
  await agent.settled();
}

/** In turns: the server answers, has just been stopped, has been stopped for so long that the agent knows. */
async function measureAdds(
  caller: RuntimeCaller,
  typha: FannedOutServer,
  samples: number,
): Promise<{ readonly latencies: readonly LatencyRow[]; readonly figures: readonly Figure[] }> {
  const ways: readonly Way[] = ['with', 'hung', 'lost'];
  const runs = new Map<Way, Run[][]>(ways.map((way) => [way, []]));
  for (let round = 0; round * TURN < samples; round += 1) {
    for (const way of inTurn(ways, round)) {
      if (way !== 'with') await typha.pause();
      if (way === 'lost') await sleep(LOST_MS);
      runs.get(way)?.push((await pairs(caller, TURN)).ADD);
      await typha.resume();
      await until(async () => (await typha.ask('/metrics')).includes('netplug_typha_clients{'), 'the agent is served');
    }
  }
  const what: Readonly<Record<Way, string>> = {
    with: 'a server answers',
    hung: 'the server has just been stopped',
    lost: 'no server has answered for 16 s',
  };
  const perRound = (way: Way, share: number): readonly number[] =>
    (runs.get(way) ?? []).map((each) =>
      quantile(
        each.map(({ ms }) => ms),
        share,
      ),
    );
  /** Of what was measured side by side. */
  const medianRatio = (way: Way, share: number): number => {
    const base = perRound('with', share);
    const ratios = perRound(way, share).map((ms, round) => ms / (base[round] ?? Number.NaN));
    return quantile(ratios, 0.5);
  };
  return {
    latencies: ways.map((way) => ({
      what: `ADD while ${what[way]}`,
      candidate: 'agent',
      ...summarise((runs.get(way) ?? []).flat()),
    })),
    figures: (['hung', 'lost'] as const).flatMap((way) => [
      figure(
        `add.${way}.p50`,
        `ADD p50 while ${what[way]} / while one answers, median of rounds`,
        medianRatio(way, 0.5),
        '',
      ),
      figure(
        `add.${way}.p99`,
        `ADD p99 while ${what[way]} / while one answers, median of rounds`,
        medianRatio(way, 0.99),
        '',
      ),
    ]),
  };
}

function figure(id: string, what: string, value: number, unit: string): Figure {
  return { id: `fan-out-agent.${id}`, what, value, unit };
}
