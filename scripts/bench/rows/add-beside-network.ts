// ADD and DEL while the agent routes to a crowd whose pool changes its mode every second, beside the same on a quiet node.
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgent } from '../../../test/support/agent.ts';
import { startNode } from '../../../test/support/node.ts';
import { inTurn } from '../attach-rounds.ts';
import { BLOCKS_PER_NODE, type Crowd } from '../crowd.ts';
import { openCrowdedNode } from '../crowded-node.ts';
import type { Run } from '../launcher.ts';
import { type Figure, type Finding, type LatencyRow, ratio, type RowOptions } from '../report.ts';
import { routeWorkOf } from '../route-work.ts';
import { openSite, pairs, type Site } from '../site.ts';
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
  readonly site: Site;
  readonly isFlipping: boolean;
}

export async function measureAddBesideNetwork({ samples, contestants }: RowOptions): Promise<Finding> {
  if (!contestants.includes('agent')) return {};
  await using scope = new AsyncDisposableStack();
  const quietNode = scope.use(await startNode({ mode: 'standalone' }));
  await quietNode.seedPool('own', '10.48.0.0/16', { vxlanMode: 'Always' });
  const quiet = await openSite(quietNode, scope.use(await startAgent(quietNode)), { scope });
  const crowded = scope.use(await openCrowdedNode());
  await crowded.crowd.growTo(NODES);
  const { agent } = await crowded.startAgent();
  scope.use(agent);
  const busy = await openSite(crowded.node, agent, { scope });
  const ways: readonly Way[] = [
    { name: 'quiet', what: 'a quiet node', site: quiet, isFlipping: false },
    { name: 'control', what: 'a quiet node, beside the busy one on this machine', site: quiet, isFlipping: true },
    { name: 'busy', what: `a node with ${String(NODES)} others, their pool changing`, site: busy, isFlipping: true },
  ];
  for (const site of [quiet, busy]) await pairs(site, WARM_UP);
  const runs = new Map(ways.map(({ name }) => [name, { ADD: [] as Run[], DEL: [] as Run[] }]));
  for (let round = 0; round * TURN < samples * 5; round += 1) {
    for (const { name, site, isFlipping } of inTurn(ways, round)) {
      const flips = isFlipping ? flip(crowded.crowd) : undefined;
      const before = (await routeWorkOf(agent)).changes;
      const done = await pairs(site, TURN);
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
      contestant: 'agent',
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

/** Changes the mode of the crowd's pool every second. */
function flip(crowd: Crowd): { readonly stop: () => Promise<void> } {
  const over = new AbortController();
  const flipping = (async (): Promise<void> => {
    for (let count = 0; !over.signal.aborted; count += 1) {
      await crowd.setMode(count % 2 === 0 ? 'CrossSubnet' : 'Always');
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
