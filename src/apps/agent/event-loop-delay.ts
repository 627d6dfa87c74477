import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Gauge, type Registry } from '@prometheus-io/client';

/** The sampling interval, which is long so that an idle agent rarely wakes up. */
const RESOLUTION_MS = 1000;
const QUANTILES = ['0.5', '0.99', '1'] as const;

export interface EventLoopDelay extends Disposable {
  /** Sets the gauge to the lag since the last report. */
  report(): void;
}

/** Samples the event-loop lag once per second until disposed of. Does not observe shorter delays between samples. */
export function eventLoopDelay(registers: Registry[]): EventLoopDelay {
  const gauge = new Gauge({
    name: 'netplug_event_loop_delay_seconds',
    help: 'Event-loop lag, sampled once per second, since the last scrape.',
    labelNames: ['quantile'],
    registers,
  });
  const measured = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  measured.enable();
  return {
    report: () => {
      for (const quantile of QUANTILES) {
        // The measured value includes the sampling interval.
        const lateMs = measured.percentile(Number(quantile) * 100) / 1e6 - RESOLUTION_MS;
        gauge.set({ quantile }, Math.max(0, lateMs) / 1000);
      }
      measured.reset();
    },
    [Symbol.dispose]: () => {
      measured.disable();
    },
  };
}
