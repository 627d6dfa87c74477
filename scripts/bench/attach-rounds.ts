// ADDs and DELs of all contestants by turns, so that what else the machine does meets all of them alike.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Arena, newPods } from './arena.ts';
import type { Contestant, ContestantName } from './contestants.ts';
import { type Latency, type Sample, summarise } from './statistics.ts';

export type Attached = ReadonlyMap<ContestantName, Readonly<Record<'ADD' | 'DEL', Latency>>>;

/** Calls of one contestant in a row; what an agent still does for them is not to fall into somebody else's turn. */
export const PER_TURN = 10;
const SETTLE_MS = 100;

/** One call at a time; the first round is warm-up. */
export async function attachInTurns(arena: Arena, samples: number): Promise<Attached> {
  const tallies = new Map(arena.contestants.map((contestant) => [contestant, { ADD: newTally(), DEL: newTally() }]));
  const rounds = 1 + Math.ceil(samples / PER_TURN);
  for (let round = 0; round < rounds; round += 1) {
    for (const contestant of inTurn(arena.contestants, round)) {
      const pods = newPods(arena, PER_TURN);
      for (const verb of ['ADD', 'DEL'] as const) {
        const measured = await measure(contestant, async () => (await arena.call(contestant, verb, { pods })).runs);
        if (round > 0) tallies.get(contestant)?.[verb].push(measured);
      }
    }
  }
  return new Map([...tallies].map(([{ name }, { ADD, DEL }]) => [name, { ADD: latencyOf(ADD), DEL: latencyOf(DEL) }]));
}

/** Everybody is first as often as the others. */
export function inTurn<T>(contestants: readonly T[], round: number): readonly T[] {
  const first = round % contestants.length;
  return [...contestants.slice(first), ...contestants.slice(0, first)];
}

export interface Measured {
  readonly samples: readonly Sample[];
  readonly agentCpuMs: number;
}

/** With what the agent uses meanwhile, and shortly after for the same calls. */
export async function measure(contestant: Contestant, work: () => Promise<readonly Sample[]>): Promise<Measured> {
  const before = await contestant.agentCpuMs();
  const samples = await work();
  if (contestant.agent !== undefined) await sleep(SETTLE_MS);
  return { samples, agentCpuMs: (await contestant.agentCpuMs()) - before };
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
