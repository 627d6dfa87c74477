// ADD and DEL while the agent routes to many nodes whose pool changes its mode every second, beside the same on a quiet node.
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgent } from '../../../test/support/agent.ts';
import { startNode } from '../../../test/support/node.ts';
import { inTurn } from '../attach-rounds.ts';
import { BLOCKS_PER_NODE, type RemoteNodes } from '../remote-nodes.ts';
import { openRoutingNode } from '../routing-node.ts';
import type { Run } from '../launcher.ts';
import { type Figure, type Finding, type LatencyRow, ratio, type RowOptions } from '../report.ts';
import { routeWorkOf } from '../route-work.ts';
import { openRuntimeCaller, pairs, type RuntimeCaller } from '../runtime-caller.ts';
import { summarise } from '../statistics.ts';

const NODES = 1000;
const FLIP_MS = 1000;
/** Until the routes of the last change are in the kernel. */
const SETTLE_MS = 3000;
/** Pairs of ADD and DEL in one turn of one way. */
const TURN = 100;
const WARM_UP = 100;

/** One place and what goes on meanwhile. */
interface Way {
  readonly name: 'quiet' | 'control' | 'busy';
  readonly what: string;
  readonly caller: RuntimeCaller;
  readonly isFlipping: boolean;
}

export async function measureAddBesideNetwork({ samples, candidates }: RowOptions): Promise<Finding> {
  if (!candidates.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const quietNode = scope.use(await startNode({ mode: 'standalone' }));
  await quietNode.seedPool('own', '10.48.0.0/16', { vxlanMode: 'Always' });
  const quiet = await openRuntimeCaller(quietNode, scope.use(await startAgent(quietNode)), { scope });
  const routing = scope.use(await openRoutingNode());
  await routing.remote.growTo(NODES);
  const { agent } = await routing.startAgent();
  scope.use(agent);
  const busy = await openRuntimeCaller(routing.node, agent, { scope });
  const ways: readonly Way[] = [
    { name: 'quiet', what: 'a quiet node', caller: quiet, isFlipping: false },
    { name: 'control', what: 'a quiet node, beside the busy one on this machine', caller: quiet, isFlipping: true },
    { name: 'busy', what: `a node with ${String(NODES)} others, their pool changing`, caller: busy, isFlipping: true },
  ];
  for (const caller of [quiet, busy]) await pairs(caller, WARM_UP);
  const runs = new Map(ways.map(({ name }) => [name, { ADD: [] as Run[], DEL: [] as Run[] }]));
  for (let round = 0; round * TURN < samples * 5; round += 1) {
    for (const { name, caller, isFlipping } of inTurn(ways, round)) {
      const flips = isFlipping ? flip(routing.remote) : undefined;
      const before = (await routeWorkOf(agent)).changes;
      const done = await pairs(caller, TURN);
      await flips?.stop();
      if (isFlipping && (await routeWorkOf(agent)).changes < before + NODES * BLOCKS_PER_NODE)
        throw new Error(`the routes did not change:\n${agent.log()}`);
      runs.get(name)?.ADD.push(...done.ADD);
      runs.get(name)?.DEL.push(...done.DEL);
    }
  }
  const latencies = ways.flatMap(({ name, what }) =>
    (['ADD', 'DEL'] as const).map((verb): LatencyRow => ({
      what: `${verb} on ${what}`,
      candidate: 'agent',
      ...summarise(runs.get(name)?.[verb] ?? []),
    })),
  );
  const over = (name: Way['name'], base: Way['name']): Figure[] => {
    const [value, divisor] = [name, base].map((each) => summarise(runs.get(each)?.ADD ?? []));
    const what = `${ways.find((way) => way.name === name)?.what ?? ''} / ${base}`;
    return [
      ...ratio({ id: `beside.${name}.${base}.p50`, what: `ADD p50, ${what}` }, value?.p50Ms, divisor?.p50Ms),
      ...ratio({ id: `beside.${name}.${base}.p99`, what: `ADD p99, ${what}` }, value?.p99Ms, divisor?.p99Ms),
    ];
  };
  const figures = [...over('control', 'quiet'), ...over('busy', 'quiet'), ...over('busy', 'control')];
  return { latencies, figures };
}

/** Changes the mode of their pool every second. */
function flip(remote: RemoteNodes): { readonly stop: () => Promise<void> } {
  const over = new AbortController();
  const flipping = (async (): Promise<void> => {
    for (let count = 0; !over.signal.aborted; count += 1) {
      await remote.setMode(count % 2 === 0 ? 'CrossSubnet' : 'Always');
      await sleep(FLIP_MS, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  return {
    stop: async () => {
      over.abort();
      await flipping;
      await sleep(SETTLE_MS);
    },
  };
}
