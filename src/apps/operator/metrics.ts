import { OPERATOR_METRICS } from '../../metrics/operator-metrics.ts';
import { registerMetrics } from '../../metrics/register.ts';
import type { InstallationCondition } from '../../model/installation-status.ts';
import { eventLoopDelay } from '../../runtime/event-loop-delay.ts';
import type { MetricsPage } from '../../runtime/health-server.ts';

/** Counters and measurements of the operator, for Prometheus. */
export interface OperatorMetrics extends MetricsPage, Disposable {
  readonly setLeading: (isLeading: boolean) => void;
  readonly observeRun: (run: { readonly ms: number; readonly failed: boolean }) => void;
  readonly countChange: (change: 'created' | 'updated' | 'restored' | 'taken over' | 'pruned') => void;
  readonly setConditions: (conditions: readonly InstallationCondition[]) => void;
}

export function createOperatorMetrics(): OperatorMetrics {
  const { registry, metrics } = registerMetrics(OPERATOR_METRICS);
  const { netplug_operator_installation_condition: conditions } = metrics;
  metrics.netplug_operator_leading.set(0);
  const loop = eventLoopDelay(metrics.netplug_event_loop_delay_seconds);
  return {
    setLeading: (isLeading) => {
      metrics.netplug_operator_leading.set(isLeading ? 1 : 0);
    },
    observeRun: ({ ms, failed }) => {
      metrics.netplug_operator_reconciles_total.inc({ outcome: failed ? 'failed' : 'ok' });
      metrics.netplug_operator_reconcile_duration_seconds.observe(ms / 1000);
    },
    countChange: (change) => {
      metrics.netplug_operator_changes_total.inc({ change });
    },
    setConditions: (all) => {
      conditions.reset();
      for (const { type, status } of all) conditions.set({ condition: type, status }, 1);
    },
    render: async () => {
      loop.report();
      return registry.metrics();
    },
    contentType: registry.contentType,
    [Symbol.dispose]: () => loop[Symbol.dispose](),
  };
}
