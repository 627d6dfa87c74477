import type { Phase } from '../../src/base/stopwatch.ts';

/** Milliseconds in which at least one phase was under way. */
export function coveredMs(phases: readonly Pick<Phase, 'startMs' | 'durationMs'>[]): number {
  let [covered, endMs] = [0, 0];
  for (const { startMs, durationMs } of phases) {
    covered += Math.max(0, startMs + durationMs - Math.max(endMs, startMs));
    endMs = Math.max(endMs, startMs + durationMs);
  }
  return covered;
}
