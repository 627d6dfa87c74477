// Many pods at once: the rate of starts and ends.
import { type Testbed, newPods, openTestbed } from '../testbed.ts';
import { inTurn, latencyOf, measure, type Measured } from '../attach-rounds.ts';
import type { Candidate, CandidateName } from '../candidates.ts';
import { type Figure, type Finding, type MeasureRow, ratio } from '../report.ts';
import { quantile } from '../statistics.ts';

const PODS = 200;
const AT_ONCE = 32;
const ROUNDS = 3;
const VERBS = ['ADD', 'DEL'] as const;

interface Tally {
  readonly measured: Measured[];
  readonly perSecond: number[];
}
type Tallies = ReadonlyMap<CandidateName, Readonly<Record<'ADD' | 'DEL', Tally>>>;

export const measureBurst: MeasureRow = async ({ candidates }) => {
  await using testbed = await openTestbed({ candidates, namespaces: PODS });
  const tallies: Tallies = new Map(
    candidates.map((name) => [name, { ADD: { measured: [], perSecond: [] }, DEL: { measured: [], perSecond: [] } }]),
  );
  for (const candidate of testbed.candidates) await burst(testbed, { candidate, pods: AT_ONCE });
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const candidate of inTurn(testbed.candidates, round)) {
      const found = await burst(testbed, { candidate, pods: PODS });
      for (const verb of VERBS) {
        const tally = tallies.get(candidate.name)?.[verb];
        tally?.measured.push(found[verb].measured);
        tally?.perSecond.push(found[verb].perSecond);
      }
    }
  }
  return findingOf(tallies);
};

interface Burst {
  readonly measured: Measured;
  readonly perSecond: number;
}

async function burst(
  testbed: Testbed,
  { candidate, pods: count }: { candidate: Candidate; pods: number },
): Promise<Record<'ADD' | 'DEL', Burst>> {
  const pods = newPods(testbed, count);
  const once = async (verb: 'ADD' | 'DEL'): Promise<Burst> => {
    let ms = 0;
    const measured = await measure(candidate, async () => {
      const batch = await testbed.call(candidate, verb, { pods, atOnce: AT_ONCE });
      ms = batch.ms;
      return batch.runs;
    });
    return { measured, perSecond: (1000 * count) / ms };
  };
  return { ADD: await once('ADD'), DEL: await once('DEL') };
}

function findingOf(tallies: Tallies): Finding {
  const what = (verb: string): string => `${String(PODS)} ${verb}s, ${String(AT_ONCE)} at once`;
  const rateOf = (name: CandidateName, verb: 'ADD' | 'DEL'): number | undefined => {
    const perSecond = tallies.get(name)?.[verb].perSecond;
    return perSecond === undefined ? undefined : quantile(perSecond, 0.5);
  };
  const names = [...tallies.keys()];
  const figures = VERBS.flatMap((verb) =>
    names.flatMap((name): Figure[] => [
      { id: `burst.${verb}.rate.${name}`, what: `${what(verb)}, ${name}`, value: rateOf(name, verb) ?? 0, unit: '/s' },
      ...(name === 'ptp'
        ? []
        : ratio(
            { id: `burst.${verb}.${name}`, what: `${what(verb)}, rate of ${name} / ptp` },
            rateOf(name, verb),
            rateOf('ptp', verb),
          )),
    ]),
  );
  const latencies = VERBS.flatMap((verb) =>
    [...tallies].map(([candidate, own]) => ({ what: what(verb), candidate, ...latencyOf(own[verb].measured) })),
  );
  return { latencies, figures };
}
