// What becomes of rate and tail when more and more calls run at once.
import { newPods, openTestbed } from '../testbed.ts';
import { inTurn } from '../attach-rounds.ts';
import type { CandidateName } from '../candidates.ts';
import type { LatencyRow, MeasureRow, Plot } from '../report.ts';
import { type Latency, summarise } from '../statistics.ts';

const LEVELS = [1, 2, 4, 8, 16, 32, 64];
const PODS = 128;

interface Point {
  readonly candidate: CandidateName;
  readonly atOnce: number;
  readonly perSecond: number;
  readonly latency: Latency;
}

export const measureConcurrency: MeasureRow = async ({ candidates }) => {
  await using testbed = await openTestbed({ candidates, namespaces: PODS });
  const points: Point[] = [];
  for (const [round, atOnce] of [1, ...LEVELS].entries()) {
    const isWarmUp = round === 0;
    for (const candidate of inTurn(testbed.candidates, round)) {
      const pods = newPods(testbed, isWarmUp ? 10 : PODS);
      const batch = await testbed.call(candidate, 'ADD', { pods, atOnce });
      await testbed.call(candidate, 'DEL', { pods, atOnce: 32 });
      if (isWarmUp) continue;
      const perSecond = (1000 * PODS) / batch.ms;
      points.push({ candidate: candidate.name, atOnce, perSecond, latency: summarise(batch.runs) });
    }
  }
  return { latencies: latenciesOf(candidates, points), plots: plotsOf(candidates, points) };
};

function latenciesOf(names: readonly CandidateName[], points: readonly Point[]): LatencyRow[] {
  return LEVELS.flatMap((level) =>
    names.flatMap((name) =>
      points
        .filter(({ atOnce, candidate }) => atOnce === level && candidate === name)
        .map(({ latency }) => ({ what: `ADD, ${String(level)} at once`, candidate: name, ...latency })),
    ),
  );
}

function plotsOf(names: readonly CandidateName[], points: readonly Point[]): Plot[] {
  const curves = (y: (point: Point) => number): Plot['curves'] =>
    names.map((name) => ({
      name,
      points: points.filter(({ candidate }) => candidate === name).map((point) => ({ x: point.atOnce, y: y(point) })),
    }));
  const x = { label: 'calls at once', scale: 'doubling' } as const;
  return [
    {
      name: 'concurrency-rate',
      title: 'Pods started against calls at once',
      x,
      y: { label: 'ADDs per second', scale: 'linear' },
      curves: curves(({ perSecond }) => perSecond),
    },
    {
      name: 'concurrency-p99',
      title: 'Slowest ADDs against calls at once',
      x,
      y: { label: 'ADD, p99 (ms)', scale: 'log' },
      curves: curves(({ latency }) => latency.p99Ms),
    },
  ];
}
