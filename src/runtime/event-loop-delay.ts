import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { Gauge } from '@prometheus-io/client';
import { systemClock } from '../base/clock.ts';

/** The sampling interval, which is long so that an idle process rarely wakes up. */
const PERIOD_MS = 5000;
const PERCENTILES = ['50', '99', '100'] as const;

export interface EventLoopDelay extends Disposable {
  /** Sets the gauge to the lag since the last report. */
  report(): void;
}

/** Samples the event-loop lag every five seconds until disposed of. Does not observe delays between samples. */
export function eventLoopDelay(gauge: Gauge<'percentile'>): EventLoopDelay {
  const measured = createHistogram();
  const over = new AbortController();
  void sample(measured, over.signal);
  return {
    report: () => {
      for (const percentile of PERCENTILES) gauge.set({ percentile }, measured.percentile(Number(percentile)) / 1e9);
      measured.reset();
    },
    [Symbol.dispose]: () => over.abort(),
  };
}

async function sample(measured: RecordableHistogram, signal: AbortSignal): Promise<void> {
  const { monotonic, sleep } = systemClock;
  while (!signal.aborted) {
    const dueMs = monotonic() + PERIOD_MS;
    await sleep(PERIOD_MS, signal).catch(() => undefined);
    // The histogram takes whole numbers from 1.
    if (!signal.aborted) measured.record(1 + Math.round(1e6 * Math.max(0, monotonic() - dueMs)));
  }
}
