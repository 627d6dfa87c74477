// What becomes of rate and tail when more and more calls run at once.
import { newPods, openArena } from '../arena.ts';
import { inTurn } from '../attach-rounds.ts';
import type { ContestantName } from '../contestants.ts';
import type { LatencyRow, MeasureRow, Plot } from '../report.ts';
import { type Latency, summarise } from '../statistics.ts';

const LEVELS = [1, 2, 4, 8, 16, 32, 64];
const PODS = 128;

interface Point {
  readonly contestant: ContestantName;
  readonly atOnce: number;
  readonly perSecond: number;
  readonly latency: Latency;
}

export const measureConcurrency: MeasureRow = async ({ contestants }) => {
  await using arena = await openArena({ contestants, namespaces: PODS });
  const points: Point[] = [];
  for (const [round, atOnce] of [1, ...LEVELS].entries()) {
    const isWarmUp = round === 0;
    for (const contestant of inTurn(arena.contestants, round)) {
      const pods = newPods(arena, isWarmUp ? 10 : PODS);
      const batch = await arena.call(contestant, 'ADD', { pods, atOnce });
      await arena.call(contestant, 'DEL', { pods, atOnce: 32 });
      if (isWarmUp) continue;
      const perSecond = (1000 * PODS) / batch.ms;
      points.push({ contestant: contestant.name, atOnce, perSecond, latency: summarise(batch.runs) });
    }
  }
  return { latencies: latenciesOf(contestants, points), plots: plotsOf(contestants, points) };
};

function latenciesOf(names: readonly ContestantName[], points: readonly Point[]): LatencyRow[] {
  return LEVELS.flatMap((level) =>
    names.flatMap((name) =>
      points
        .filter(({ atOnce, contestant }) => atOnce === level && contestant === name)
        .map(({ latency }) => ({ what: `ADD, ${String(level)} at once`, contestant: name, ...latency })),
    ),
  );
}

function plotsOf(names: readonly ContestantName[], points: readonly Point[]): Plot[] {
  const curves = (y: (point: Point) => number): Plot['curves'] =>
    names.map((name) => ({
      name,
      points: points.filter(({ contestant }) => contestant === name).map((point) => ({ x: point.atOnce, y: y(point) })),
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
