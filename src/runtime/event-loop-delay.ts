import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Gauge } from '@prometheus-io/client';

/** The sampling interval, which is long so that an idle agent rarely wakes up. */
const RESOLUTION_MS = 1000;
const PERCENTILES = ['50', '99', '100'] as const;

export interface EventLoopDelay extends Disposable {
  /** Sets the gauge to the lag since the last report. */
  report(): void;
}

/** Samples the event-loop lag once per second until disposed of. Does not observe shorter delays between samples. */
export function eventLoopDelay(gauge: Gauge<'percentile'>): EventLoopDelay {
  const measured = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  measured.enable();
  return {
    report: () => {
      for (const percentile of PERCENTILES) {
        // The measured value includes the sampling interval.
        const lateMs = measured.percentile(Number(percentile)) / 1e6 - RESOLUTION_MS;
        gauge.set({ percentile }, Math.max(0, lateMs) / 1000);
      }
      measured.reset();
    },
    [Symbol.dispose]: () => {
      measured.disable();
    },
  };
}
