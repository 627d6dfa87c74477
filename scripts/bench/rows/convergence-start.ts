// An agent that starts while the cluster is there already: until everything is in the kernel, and what it costs.
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type RoutingNode, openRoutingNode } from '../routing-node.ts';
import { BLOCKS_PER_NODE, NODE_COUNTS } from '../remote-nodes.ts';
import { cpuMsOf, memoryOf } from '../process-usage.ts';
import { type Curve, type Figure, type Finding, type Plot, ratio } from '../report.ts';
import { expectedTables, kernelTablesOf, routeWorkOf } from '../route-work.ts';
import { quantile } from '../statistics.ts';

/** Memory is looked at when the start is over for so long. */
const SETTLE_MS = 1000;
/** The median over the rounds counts. */
const ROUNDS = 3;
const KB_PER_MB = 1024;

interface Start {
  readonly size: number;
  readonly ms: number;
  readonly cpuMs: number;
  readonly rssMb: number;
  /** Asked of the kernel. */
  readonly changes: number;
}

/** Each number of nodes is measured twice: after a boot, and after a restart of the agent alone. */
export async function measureConvergenceAtStart(): Promise<Finding> {
  await using routing = await openRoutingNode();
  const boots: Start[] = [];
  const restarts: Start[] = [];
  for (const size of NODE_COUNTS) {
    await routing.remote.growTo(size);
    const rounds: { readonly boot: Start; readonly restart: Start }[] = [];
    while (rounds.length < ROUNDS) {
      rounds.push({ boot: await measureStart(routing), restart: await measureStart(routing) });
      await routing.reset();
    }
    boots.push(medianOf(rounds.map(({ boot }) => boot)));
    restarts.push(medianOf(rounds.map(({ restart }) => restart)));
  }
  return { figures: figuresOf(boots, restarts), plots: plotsOf(boots, restarts) };
}

/** Of changes the most. */
function medianOf(starts: readonly Start[]): Start {
  const median = (valueOf: (start: Start) => number): number => quantile(starts.map(valueOf), 0.5);
  return {
    size: median(({ size }) => size),
    ms: median(({ ms }) => ms),
    cpuMs: median(({ cpuMs }) => cpuMs),
    rssMb: median(({ rssMb }) => rssMb),
    changes: Math.max(...starts.map(({ changes }) => changes)),
  };
}

async function measureStart(routing: RoutingNode): Promise<Start> {
  const { node, remote } = routing;
  const { agent, ms } = await routing.startAgent();
  await using _agent = agent;
  const [tables, expected] = [await kernelTablesOf(node), expectedTables(remote)];
  if (!isDeepStrictEqual(tables, expected))
    throw new Error(`the kernel has ${JSON.stringify(tables)} instead of ${JSON.stringify(expected)}\n${agent.log()}`);
  const cpuMs = await cpuMsOf(node, agent.pid);
  await sleep(SETTLE_MS);
  const { rssMb } = await memoryOf(node, agent.pid);
  const { changes } = await routeWorkOf(agent);
  return { size: remote.size, ms, cpuMs, rssMb, changes };
}

function figuresOf(boots: readonly Start[], restarts: readonly Start[]): readonly Figure[] {
  const [first, middle, last] = [boots[0], boots.at(-2), boots.at(-1)];
  const restart = restarts.at(-1);
  if (first === undefined || middle === undefined || last === undefined || restart === undefined) return [];
  const at = `${String(last.size)} nodes, ${String(last.size * BLOCKS_PER_NODE)} blocks`;
  const perNode = (which: Start): number => (which.cpuMs - first.cpuMs) / (which.size - first.size);
  const kbPerNode = ((last.rssMb - first.rssMb) * KB_PER_MB) / (last.size - first.size);
  return [
    { id: 'convergence.start', what: `start to all routes, ${at}`, value: last.ms, unit: 'ms' },
    { id: 'convergence.restart', what: `start with all routes there, ${at}`, value: restart.ms, unit: 'ms' },
    { id: 'convergence.start.cpu', what: `CPU of the start, ${at}`, value: last.cpuMs, unit: 'ms' },
    { id: 'convergence.restart.cpu', what: `CPU of a restart, ${at}`, value: restart.cpuMs, unit: 'ms' },
    { id: 'convergence.rss', what: `memory of the agent, ${at}`, value: last.rssMb, unit: 'MB' },
    { id: 'convergence.memory', what: 'memory of the agent per node', value: kbPerNode, unit: 'KB' },
    ...ratio(
      {
        id: 'convergence.start.growth',
        what: `CPU of the start per node, ${String(last.size)} / ${String(middle.size)} nodes`,
      },
      perNode(last),
      perNode(middle),
    ),
    {
      id: 'convergence.restart.changes',
      what: 'changes of the kernel by a restart',
      value: Math.max(...restarts.map(({ changes }) => changes)),
      unit: '',
    },
  ];
}

function plotsOf(boots: readonly Start[], restarts: readonly Start[]): readonly Plot[] {
  const curves = (valueOf: (start: Start) => number): Curve[] =>
    Object.entries({ 'after a boot': boots, 'started again': restarts }).map(([name, starts]) => ({
      name,
      points: starts.map((start) => ({ x: start.size, y: valueOf(start) })),
    }));
  const x = { label: `nodes with ${String(BLOCKS_PER_NODE)} blocks each`, scale: 'doubling' } as const;
  return [
    {
      name: 'convergence-start',
      title: 'Start of the agent to all routes',
      x,
      y: { label: 'ms', scale: 'log' },
      curves: curves(({ ms }) => ms),
    },
    {
      name: 'convergence-memory',
      title: 'Memory of the agent against nodes',
      x,
      y: { label: 'MB', scale: 'linear' },
      curves: curves(({ rssMb }) => rssMb),
    },
  ];
}
