// ADD while many addresses are taken.
import { openTestbed } from '../testbed.ts';
import { attachInTurns, type Attached, PER_TURN } from '../attach-rounds.ts';
import { type Finding, type LatencyRow, type MeasureRow, ratio } from '../report.ts';

const LEVELS = [0, 100, 1000, 5000, 10_000];
const ENDS = [LEVELS[0], LEVELS.at(-1)];
/** Between the ends, which alone are compared. */
const SAMPLES_BETWEEN = 30;

export const measureOccupancy: MeasureRow = async ({ samples, candidates }) => {
  await using testbed = await openTestbed({ candidates, namespaces: PER_TURN });
  const measured: { level: number; attached: Attached }[] = [];
  for (const level of LEVELS) {
    for (const candidate of testbed.candidates) await candidate.fill(level);
    const count = ENDS.includes(level) ? samples : Math.min(samples, SAMPLES_BETWEEN);
    measured.push({ level, attached: await attachInTurns(testbed, count) });
  }
  return findingOf(candidates, measured);
};

function findingOf(names: readonly string[], measured: readonly { level: number; attached: Attached }[]): Finding {
  const latencies = measured.flatMap(({ level, attached }) =>
    [...attached].map(([candidate, { ADD }]): LatencyRow => ({
      what: `ADD, ${String(level)} taken`,
      candidate,
      ...ADD,
    })),
  );
  const p50s = names.map((name) => ({
    name,
    points: measured.map(({ level, attached }) => ({
      x: level,
      y: [...attached].find(([candidate]) => candidate === name)?.[1].ADD.p50Ms ?? 0,
    })),
  }));
  return {
    latencies,
    figures: p50s.flatMap(({ name, points }) =>
      ratio(
        { id: `occupancy.${name}`, what: `ADD p50 with 10 000 taken / empty, ${name}` },
        points.at(-1)?.y,
        points[0]?.y,
      ),
    ),
    plots: [
      {
        name: 'occupancy',
        title: 'ADD against addresses taken on the node',
        x: { label: 'addresses taken', scale: 'linear' },
        y: { label: 'ADD, p50 (ms)', scale: 'log' },
        curves: p50s,
      },
    ],
  };
}
