// ADD and DEL as whole processes, one at a time.
import { openTestbed } from '../testbed.ts';
import { attachInTurns, PER_TURN } from '../attach-rounds.ts';
import { type Figure, type MeasureRow, ratio } from '../report.ts';

export const measureAttach: MeasureRow = async ({ samples, candidates }) => {
  await using testbed = await openTestbed({ candidates, namespaces: PER_TURN });
  const attached = await attachInTurns(testbed, samples);
  const verbs = ['ADD', 'DEL'] as const;
  const ptp = attached.get('ptp');
  const figures = [...attached].flatMap(([name, own]) =>
    name === 'ptp'
      ? []
      : verbs.flatMap((verb): Figure[] => [
          ...ratio(
            { id: `${verb}.p50.${name}`, what: `${verb} p50, ${name} / ptp` },
            own[verb].p50Ms,
            ptp?.[verb].p50Ms,
          ),
          ...ratio(
            { id: `${verb}.p99.${name}`, what: `${verb} p99, ${name} / ptp` },
            own[verb].p99Ms,
            ptp?.[verb].p99Ms,
          ),
        ]),
  );
  const latencies = verbs.flatMap((verb) =>
    [...attached].map(([candidate, own]) => ({ what: verb, candidate, ...own[verb] })),
  );
  return { latencies, figures };
};
