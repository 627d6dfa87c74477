// What one agent costs with the fan-out and without, on a real API server: bytes while it is idle, CPU while pods come and go
// elsewhere, memory; and ADD while its server is stopped.
import { setTimeout as sleep } from 'node:timers/promises';
import { openOrchStore } from '../../../src/datastore/orch/orch-store.ts';
import { type Agent, startAgent } from '../../../test/support/agent.ts';
import { trafficDuring } from '../../../test/support/api-traffic.ts';
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
  const typha = await parts.startServer('typha-1-a', 5473);
  scope.defer(async () => typha.stop('KILL'));
  const figures: Figure[] = [];
  const latencies: LatencyRow[] = [];
  for (const mode of ['without', 'with'] as const) {
    await using agent = await startAgent(node, { env: parts.agentEnv(mode === 'with' ? 'on' : 'off') });
    await using calls = new AsyncDisposableStack();
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=beside';
    const caller = await openRuntimeCaller(node, agent, { scope: calls, args, conf: parts.conf, name: mode });
    await pairs(caller, WARM_UP);
    figures.push(...(await measureMode(parts, { mode, agent, remote })));
    if (mode === 'with') {
      const measured = await measureAdds(caller, typha, samples);
      latencies.push(...measured.latencies);
      figures.push(...measured.figures);
    }
  }
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

async function measureMode(
  { node, api }: FannedOutNode,
  { mode, agent, remote }: { readonly mode: Mode; readonly agent: Agent; readonly remote: RemotePods },
): Promise<readonly Figure[]> {
  await sleep(SETTLE_MS);
  const { bytes } = await trafficDuring(api, async () => sleep(IDLE_MS));
  const before = await cpuMsOf(node, agent.pid);
  const { bytes: churnBytes } = await trafficDuring(api, async () => churn(agent, remote));
  const cpuMs = (await cpuMsOf(node, agent.pid)) - before;
  await sleep(SETTLE_MS);
  const { pssMb } = await memoryOf(node, agent.pid);
  const how = mode === 'with' ? 'with the fan-out' : 'without the fan-out';
  const elsewhere = `${String(CHURN_PER_SECOND)} pods a second come and go elsewhere`;
  return [
    ...figure(
      `idle.${mode}`,
      `bytes of the API a minute, idle agent ${how}`,
      (bytes * 60) / (IDLE_MS / 1000) / 1000,
      'kB',
    ),
    ...figure(
      `churn.${mode}`,
      `CPU of an agent ${how} while ${elsewhere}`,
      (100 * cpuMs) / (CHURN_S * 1000),
      '% of a core',
    ),
    ...figure(
      `churn.bytes.${mode}`,
      `bytes of the API for each of these pods, agent ${how}`,
      churnBytes / (CHURN_S * CHURN_PER_SECOND) / 1000,
      'kB',
    ),
    ...figure(`pss.${mode}`, `memory of both processes of an agent ${how}, ${SIZE}`, pssMb, 'MB'),
  ];
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
      ...figure(
        `add.${way}.p50`,
        `ADD p50 while ${what[way]} / while one answers, median of rounds`,
        medianRatio(way, 0.5),
        '',
      ),
      ...figure(
        `add.${way}.p99`,
        `ADD p99 while ${what[way]} / while one answers, median of rounds`,
        medianRatio(way, 0.99),
        '',
      ),
    ]),
  };
}

function figure(id: string, what: string, value: number, unit: string): readonly Figure[] {
  return [{ id: `fan-out-agent.${id}`, what, value, unit }];
}
