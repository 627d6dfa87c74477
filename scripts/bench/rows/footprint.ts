// What the agent costs a node while nothing happens.
import { setTimeout as sleep } from 'node:timers/promises';
import { newPods, openArena } from '../arena.ts';
import { memoryOf } from '../process-usage.ts';
import type { MeasureRow } from '../report.ts';

const TAKEN = 10_000;
const PODS = 10;
/** The agent has read what is new, and has cleared up after the pods and in its own memory. */
const SETTLE_MS = 120_000;
/** What it looks at from time to time, it looks at every minute at the latest. */
const IDLE_MS = 60_000;

export const measureFootprint: MeasureRow = async ({ contestants }) => {
  if (!contestants.includes('agent')) return {};
  await using arena = await openArena({ contestants: ['agent'], namespaces: PODS });
  const [contestant] = arena.contestants;
  const agent = contestant?.agent;
  if (contestant === undefined || agent === undefined) throw new Error('no agent');
  await contestant.fill(TAKEN);
  const pods = newPods(arena, PODS);
  await arena.call(contestant, 'ADD', { pods });
  await arena.call(contestant, 'DEL', { pods });
  await sleep(SETTLE_MS);
  const before = await contestant.agentCpuMs();
  await sleep(IDLE_MS);
  const idleCpuMs = (await contestant.agentCpuMs()) - before;
  const { rssMb, pssMb } = await memoryOf(arena.node, agent.pid);
  const at = `at ${String(TAKEN)} addresses`;
  return {
    figures: [
      { id: 'footprint.rss', what: `memory of the agent ${at}`, value: rssMb, unit: 'MB' },
      { id: 'footprint.pss', what: `memory of the agent ${at}, shared pages by share`, value: pssMb, unit: 'MB' },
      { id: 'footprint.idle', what: 'CPU of the idle agent', value: (100 * idleCpuMs) / IDLE_MS, unit: '% of a core' },
    ],
  };
};
