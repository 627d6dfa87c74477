// ADDs and DELs of all candidates by turns, so that what else the machine does meets all of them alike.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Testbed, newPods } from './testbed.ts';
import type { Candidate, CandidateName } from './candidates.ts';
import { type Latency, type Sample, summarise } from './statistics.ts';

export type Attached = ReadonlyMap<CandidateName, Readonly<Record<'ADD' | 'DEL', Latency>>>;

/** Calls of one candidate in a row; what an agent still does for them is not to fall into the turn of another. */
export const PER_TURN = 10;
const SETTLE_MS = 100;

/** One call at a time; the first round is warm-up. */
export async function attachInTurns(testbed: Testbed, samples: number): Promise<Attached> {
  const tallies = new Map(testbed.candidates.map((candidate) => [candidate, { ADD: newTally(), DEL: newTally() }]));
  const rounds = 1 + Math.ceil(samples / PER_TURN);
  for (let round = 0; round < rounds; round += 1) {
    for (const candidate of inTurn(testbed.candidates, round)) {
      const pods = newPods(testbed, PER_TURN);
      for (const verb of ['ADD', 'DEL'] as const) {
        const measured = await measure(candidate, async () => (await testbed.call(candidate, verb, { pods })).runs);
        if (round > 0) tallies.get(candidate)?.[verb].push(measured);
      }
    }
  }
  return new Map([...tallies].map(([{ name }, { ADD, DEL }]) => [name, { ADD: latencyOf(ADD), DEL: latencyOf(DEL) }]));
}

/** Everybody is first as often as the others. */
export function inTurn<T>(candidates: readonly T[], round: number): readonly T[] {
  const first = round % candidates.length;
  return [...candidates.slice(first), ...candidates.slice(0, first)];
}

export interface Measured {
  readonly samples: readonly Sample[];
  readonly agentCpuMs: number;
}

/** With what the agent uses meanwhile, and shortly after for the same calls. */
export async function measure(candidate: Candidate, work: () => Promise<readonly Sample[]>): Promise<Measured> {
  const before = await candidate.agentCpuMs();
  const samples = await work();
  if (candidate.agent !== undefined) await sleep(SETTLE_MS);
  return { samples, agentCpuMs: (await candidate.agentCpuMs()) - before };
}

export function latencyOf(measured: readonly Measured[]): Latency {
  return summarise(
    measured.flatMap(({ samples }) => samples),
    measured.reduce((sum, { agentCpuMs }) => sum + agentCpuMs, 0),
  );
}

function newTally(): Measured[] {
  return [];
}
