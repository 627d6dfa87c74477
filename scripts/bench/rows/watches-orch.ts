// What one agent costs the API server while pods rest: watches, connections and bytes, with heartbeats of the other nodes
// and without. NETPLUG_BENCH_BEFORE names the agent of another build, which is measured in turns with this one.
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgent } from '../../../test/support/agent.ts';
import { addedWatches, trafficDuring, watchesOf } from '../../../test/support/api-traffic.ts';
import { poolOf } from '../../../test/support/fixtures.ts';
import { startNode, type TestNode } from '../../../test/support/node.ts';
import { type OrchApiServer, startOrchApiServer } from '../../../test/support/orch-datastore.ts';
import { startTcpProxy, type TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { inside } from '../inside.ts';
import type { Figure, MeasureRow, Plot } from '../report.ts';
import { BEAT_MS, openSimulatedNodes, type SimulatedNodes } from '../simulated-nodes.ts';

const SIZES = [10, 100, 1000];
const WINDOW_MS = 30_000;
const WINDOWS_PER_MINUTE = 60_000 / WINDOW_MS;
/** The agent has read everything and written what is to be written. */
const SETTLE_MS = 15_000;

interface Bench {
  readonly server: OrchApiServer;
  readonly node: TestNode;
  readonly proxy: TcpProxy;
  readonly nodes: SimulatedNodes;
  readonly orchconfig: string;
}

interface Candidate {
  readonly name: 'agent' | 'before';
  readonly command?: readonly string[];
}

interface Measured {
  readonly candidate: Candidate['name'];
  readonly size: number;
  readonly watches: Readonly<Record<string, number>>;
  readonly connections: number;
  /** In a minute. */
  readonly quietBytes: number;
  readonly beatenBytes: number;
  /** Heartbeats of other nodes in that minute. */
  readonly beats: number;
}

export const measureWatchesOnOrch: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const bench = await openBench(scope);
  const measured: Measured[] = [];
  for (const size of SIZES) {
    await bench.nodes.beat(true);
    await bench.nodes.growTo(size);
    for (const candidate of chooseAgents()) measured.push(await measure(bench, candidate, size));
  }
  return { figures: measured.flatMap((each) => figuresOf(each)), plots: [plotOf(measured)] };
};

function chooseAgents(): readonly Candidate[] {
  const before = process.env['NETPLUG_BENCH_BEFORE'] ?? '';
  return [...(before === '' ? [] : [{ name: 'before', command: [before] } as const]), { name: 'agent' }];
}

async function openBench(scope: AsyncDisposableStack): Promise<Bench> {
  const server = scope.use(await startOrchApiServer());
  const node = scope.use(await startNode({ mode: 'standalone' }));
  await server.putNode(node.name);
  await server.apply([poolOf('pods', '10.64.0.0/10', { vxlanMode: 'Always' })]);
  const proxy = scope.use(await inside(node, async () => startTcpProxy({ port: Number(new URL(server.url).port) })));
  const url = `https://127.0.0.1:${String(proxy.port)}`;
  const orchconfig = await server.kubeconfigFor(await server.callerToken('agent'), { url });
  const nodes = scope.use(await openSimulatedNodes(server));
  return { server, node, proxy, nodes, orchconfig };
}

async function measure(
  { server, node, proxy, nodes, orchconfig }: Bench,
  { name, command }: Candidate,
  size: number,
): Promise<Measured> {
  await nodes.beat(false);
  const without = await watchesOf(server);
  const env = { DATASTORE_TYPE: 'orch', ORCHCONFIG: orchconfig };
  await using _agent = await startAgent(node, { env, ...(command === undefined ? {} : { command }) });
  await sleep(SETTLE_MS);
  const quiet = await trafficDuring(proxy, async () => sleep(WINDOW_MS));
  const watches = addedWatches(without, await watchesOf(server));
  await nodes.beat(true);
  // All of them are late at first.
  await sleep(BEAT_MS);
  const before = await heartbeatsOf(server);
  const beaten = await trafficDuring(proxy, async () => sleep(WINDOW_MS));
  const beats = (await heartbeatsOf(server)) - before;
  const share = beats / ((size * WINDOW_MS) / BEAT_MS);
  if (share < 0.5)
    throw new Error(`only ${(100 * share).toFixed(0)} % of the heartbeats of ${String(size)} nodes came`);
  return {
    candidate: name,
    size,
    watches,
    connections: beaten.connections,
    quietBytes: quiet.bytes * WINDOWS_PER_MINUTE,
    beatenBytes: beaten.bytes * WINDOWS_PER_MINUTE,
    beats: beats * WINDOWS_PER_MINUTE,
  };
}

/** How many changes of a Node's status the API server has carried out. */
async function heartbeatsOf(server: OrchApiServer): Promise<number> {
  const metrics = await server.kubectl('get', '--raw', '/metrics');
  const lines = metrics.matchAll(/^apiserver_request_total\{(.*resource="nodes".*)\} (\d+)$/gm);
  return [...lines].reduce(
    (sum, [, labels = '', count]) =>
      labels.includes('subresource="status"') && labels.includes('code="200"') ? sum + Number(count) : sum,
    0,
  );
}

function figuresOf({
  candidate,
  size,
  watches,
  connections,
  quietBytes,
  beatenBytes,
  beats,
}: Measured): readonly Figure[] {
  const id = `watches-orch.${candidate}.${String(size)}`;
  const who = `${candidate}, ${String(size)} nodes`;
  const counts = Object.values(watches);
  const perBeat = (beatenBytes - quietBytes) / beats;
  return [
    { id: `${id}.watches`, what: `watches of the API, ${who}`, value: counts.reduce((a, b) => a + b, 0), unit: '' },
    { id: `${id}.per-kind`, what: `the most watches of one kind, ${who}`, value: Math.max(0, ...counts), unit: '' },
    { id: `${id}.connections`, what: `connections to the API, ${who}`, value: connections, unit: '' },
    { id: `${id}.quiet`, what: `bytes a minute without heartbeats, ${who}`, value: quietBytes, unit: 'B' },
    { id: `${id}.beaten`, what: `bytes a minute with heartbeats, ${who}`, value: beatenBytes, unit: 'B' },
    { id: `${id}.heartbeat`, what: `bytes for a heartbeat of another node, ${who}`, value: perBeat, unit: 'B' },
  ];
}

function plotOf(measured: readonly Measured[]): Plot {
  const names = [...new Set(measured.map(({ candidate }) => candidate))];
  return {
    name: 'watches-orch',
    title: 'Bytes between one agent and the API server per minute, with heartbeats of all nodes every 10 s',
    x: { label: 'nodes', scale: 'log' },
    y: { label: 'bytes', scale: 'log' },
    curves: names.map((name) => ({
      name,
      points: measured
        .filter(({ candidate }) => candidate === name)
        .map(({ size, beatenBytes }) => ({ x: size, y: beatenBytes })),
    })),
  };
}
