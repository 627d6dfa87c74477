// What the agent costs a node while nothing happens.
import { setTimeout as sleep } from 'node:timers/promises';
import { newPods, openTestbed } from '../testbed.ts';
import { memoryOf } from '../process-usage.ts';
import type { MeasureRow } from '../report.ts';

const TAKEN = 10_000;
const PODS = 10;
/** The agent has cleared up after the pods and in its memory, and V8 has compiled what runs from time to time. */
const SETTLE_MS = 360_000;
/** What it looks at from time to time, it looks at every minute at the latest. */
const IDLE_MS = 120_000;

export const measureFootprint: MeasureRow = async ({ candidates }) => {
  if (!candidates.includes('agent')) return {};
  await using testbed = await openTestbed({ candidates: ['agent'], namespaces: PODS });
  const [candidate] = testbed.candidates;
  const agent = candidate?.agent;
  if (candidate === undefined || agent === undefined) throw new Error('no agent');
  await candidate.fill(TAKEN);
  const pods = newPods(testbed, PODS);
  await testbed.call(candidate, 'ADD', { pods });
  await testbed.call(candidate, 'DEL', { pods });
  await sleep(SETTLE_MS);
  const before = await candidate.agentCpuMs();
  await sleep(IDLE_MS);
  const idleCpuMs = (await candidate.agentCpuMs()) - before;
  const { rssMb, pssMb } = await memoryOf(testbed.node, agent.pid);
  const at = `at ${String(TAKEN)} addresses`;
  return {
    figures: [
      { id: 'footprint.rss', what: `memory of the agent ${at}`, value: rssMb, unit: 'MB' },
      { id: 'footprint.pss', what: `memory of the agent ${at}, shared pages by share`, value: pssMb, unit: 'MB' },
      { id: 'footprint.idle', what: 'CPU of the idle agent', value: (100 * idleCpuMs) / IDLE_MS, unit: '% of a core' },
    ],
  };
};
