import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Gauge, type Registry } from '@prometheus-io/client';

/** How often the event loop is looked at: so rarely that an idle agent hardly wakes up for it. */
const RESOLUTION_MS = 1000;
const QUANTILES = ['0.5', '0.99', '1'] as const;

export interface EventLoopDelay extends Disposable {
  /** Sets the gauge to what was measured since the last time. */
  report(): void;
}

/**
 * Measures by the clock, until disposed of, how late the event loop comes round at one moment of each second. A shorter
 * delay between these moments stays unseen.
 */
export function eventLoopDelay(registers: Registry[]): EventLoopDelay {
  const gauge = new Gauge({
    name: 'netplug_event_loop_delay_seconds',
    help: 'How late the event loop ran a timer of once a second, since the last scrape.',
    labelNames: ['quantile'],
    registers,
  });
  const measured = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  measured.enable();
  return {
    report: () => {
      for (const quantile of QUANTILES) {
        // What is measured includes the pause between two looks.
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
