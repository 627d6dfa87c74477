// A change somewhere in the cluster: how soon it is in the kernel of this node, and how much it makes the agent do.
import { linuxHostNetwork } from '../../../src/dataplane/linux/host-network.ts';
import { formatCidr } from '../../../src/net/cidr.ts';
import type { Agent } from '../../../test/support/agent.ts';
import { until } from '../../../test/support/until.ts';
import { buildNative } from '../../build-native.ts';
import { BLOCKS_PER_NODE, NODE_COUNTS } from '../remote-nodes.ts';
import { type RoutingNode, openRoutingNode } from '../routing-node.ts';
import { inside } from '../inside.ts';
import { cpuMsOf } from '../process-usage.ts';
import { type Figure, type Finding, type LatencyRow, type MeasureRow, type Plot, ratio } from '../report.ts';
import { expectedTables, kernelTablesOf, routeWorkOf } from '../route-work.ts';
import { summarise } from '../statistics.ts';

const LEAST_SAMPLES = 50;
const ADDED_NODES = 10;
const ARRIVAL_MS = 10_000;

/** What the kernel tells of routes and peers. */
interface KernelWatch extends Disposable {
  /** Settles when a route to the destination is put; says when. */
  arrival(destination: string): Promise<number>;
  /** How many times it has told of a route, a neighbour or a forwarding entry. */
  notices(): number;
}

interface Level {
  readonly size: number;
  readonly latency: LatencyRow;
  /** Changes that an added node made the agent ask for / its routes and peers. */
  readonly changesShare: number;
  /** What the kernel told of an added node / its routes, neighbours and forwarding entries. */
  readonly noticesShare: number;
  readonly comparisons: number;
}

/** The agent goes on running while nodes are added. */
export const measureConvergenceOfBlocks: MeasureRow = async ({ samples }) => {
  await using routing = await openRoutingNode();
  const { remote, node } = routing;
  await remote.growTo(NODE_COUNTS[0] ?? 0);
  const { agent } = await routing.startAgent();
  await using _agent = agent;
  using watch = await inside(node, async () => Promise.resolve(watchKernel()));
  const levels: Level[] = [];
  for (const size of NODE_COUNTS) {
    await remote.growTo(size);
    await untilRouted(routing, agent);
    const latency = await measureClaims(routing, { agent, watch, samples: Math.max(samples, LEAST_SAMPLES) });
    levels.push({ size, latency, ...(await measureAddedNodes(routing, { agent, watch })) });
  }
  return findingOf(levels);
};

/** In the namespace that the caller is in. */
function watchKernel(): KernelWatch {
  const waiting = new Map<string, (atMs: number) => void>();
  let notices = 0;
  const host = linuxHostNetwork({ addonPath: buildNative() });
  const watch = host.watch((event) => {
    if (event.kind === 'unknown') throw new Error('the kernel has told more than could be heard');
    if (event.kind !== 'links') notices += 1;
    if (event.kind !== 'route-put') return;
    const destination = formatCidr(event.route.destination);
    waiting.get(destination)?.(performance.now());
    waiting.delete(destination);
  });
  return {
    arrival: async (destination) => {
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      waiting.set(destination, resolve);
      const late = setTimeout(() => reject(new Error(`no route to ${destination}`)), ARRIVAL_MS);
      return promise.finally(() => clearTimeout(late));
    },
    notices: () => notices,
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  };
}

/** One block after the other, from before it is claimed until the kernel tells of the route. */
async function measureClaims(
  { node, remote }: RoutingNode,
  { agent, watch, samples }: { readonly agent: Agent; readonly watch: KernelWatch; readonly samples: number },
): Promise<LatencyRow> {
  const times: number[] = [];
  const cpuBeforeMs = await cpuMsOf(node, agent.pid);
  while (times.length < samples) {
    const startMs = performance.now();
    const { block, done } = remote.claim();
    const [endMs] = await Promise.all([watch.arrival(formatCidr(block)), done]);
    times.push(endMs - startMs);
  }
  const cpuMs = (await cpuMsOf(node, agent.pid)) - cpuBeforeMs;
  const latency = summarise(
    times.map((ms) => ({ ms, cpuMs: 0 })),
    cpuMs,
  );
  return { what: `route to a new block, ${String(remote.size)} nodes`, candidate: 'agent', ...latency };
}

async function measureAddedNodes(
  routing: RoutingNode,
  { agent, watch }: { readonly agent: Agent; readonly watch: KernelWatch },
): Promise<Pick<Level, 'changesShare' | 'noticesShare' | 'comparisons'>> {
  const before = await routeWorkOf(agent);
  const noticesBefore = watch.notices();
  await routing.remote.growTo(routing.remote.size + ADDED_NODES);
  await untilRouted(routing, agent);
  const after = await routeWorkOf(agent);
  return {
    changesShare: (after.changes - before.changes) / (ADDED_NODES * (BLOCKS_PER_NODE + 1)),
    noticesShare: (watch.notices() - noticesBefore) / (ADDED_NODES * (BLOCKS_PER_NODE + 2)),
    comparisons: after.comparisons - before.comparisons,
  };
}

/** The kernel is asked itself in the end. */
async function untilRouted({ node, remote }: RoutingNode, agent: Agent): Promise<void> {
  const expected = expectedTables(remote);
  const isThere = (found: { readonly routes: number; readonly peers: number }): boolean =>
    found.routes === expected.routes && found.peers === expected.peers;
  await until(
    async () => isThere(await routeWorkOf(agent)) && isThere(await kernelTablesOf(node)),
    () => `there are ${JSON.stringify(expected)}; the agent says:\n${agent.log()}`,
  );
}

function findingOf(levels: readonly Level[]): Finding {
  const [first, last] = [levels[0], levels.at(-1)];
  const between = `${String(last?.size)} / ${String(first?.size)} nodes`;
  const figures: Figure[] = [
    ...ratio(
      { id: 'convergence.block', what: `new block to its route, p50, ${between}` },
      last?.latency.p50Ms,
      first?.latency.p50Ms,
    ),
    ...ratio(
      { id: 'convergence.block.cpu', what: `CPU of the agent per new block, ${between}` },
      last?.latency.cpuMs,
      first?.latency.cpuMs,
    ),
    {
      id: 'convergence.node.changes',
      what: 'changes of the kernel per added node / its routes and peers',
      value: Math.max(...levels.map(({ changesShare }) => changesShare)),
      unit: '',
    },
    {
      id: 'convergence.node.notices',
      what: 'notices of the kernel per added node / its routes, neighbours and forwarding entries',
      value: Math.max(...levels.map(({ noticesShare }) => noticesShare)),
      unit: '',
    },
    {
      id: 'convergence.node.comparisons',
      what: 'comparisons of everything while nodes were added',
      value: Math.max(...levels.map(({ comparisons }) => comparisons)),
      unit: '',
    },
  ];
  return { latencies: levels.map(({ latency }) => latency), figures, plots: [plotOf(levels)] };
}

function plotOf(levels: readonly Level[]): Plot {
  const curve = (name: string, valueOf: (latency: LatencyRow) => number): Plot['curves'][number] => ({
    name,
    points: levels.map(({ size, latency }) => ({ x: size, y: valueOf(latency) })),
  });
  return {
    name: 'convergence-block',
    title: 'A new block to its route on another node',
    x: { label: `nodes with ${String(BLOCKS_PER_NODE)} blocks each`, scale: 'doubling' },
    y: { label: 'ms', scale: 'linear' },
    curves: [curve('p50', ({ p50Ms }) => p50Ms), curve('p99', ({ p99Ms }) => p99Ms)],
  };
}
