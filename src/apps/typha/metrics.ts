import { registerMetrics } from '../../metrics/register.ts';
import { TYPHA_METRICS } from '../../metrics/typha-metrics.ts';
import { eventLoopDelay } from '../../runtime/event-loop-delay.ts';
import type { MetricsPage } from '../../runtime/health-server.ts';
import type { RunningTypha } from './serve-typha.ts';

/** Measurements of the server, for Prometheus; `running` returns it once it serves. */
export function createTyphaMetrics(running: () => RunningTypha | undefined): MetricsPage & Disposable {
  const { registry, metrics } = registerMetrics(TYPHA_METRICS);
  const loop = eventLoopDelay(metrics.netplug_event_loop_delay_seconds);
  return {
    render: async () => {
      const typha = running();
      if (typha !== undefined) report(metrics, typha);
      loop.report();
      return registry.metrics();
    },
    contentType: registry.contentType,
    [Symbol.dispose]: () => loop[Symbol.dispose](),
  };
}

type Metrics = ReturnType<typeof registerMetrics<typeof TYPHA_METRICS>>['metrics'];

function report(metrics: Metrics, { service, listener, identity }: RunningTypha): void {
  const sessions = [...service.sessions];
  metrics.netplug_typha_clients.reset();
  for (const [release, ofRelease] of Map.groupBy(sessions, ({ client }) => client.release))
    metrics.netplug_typha_clients.set({ release }, ofRelease.length);
  const snapshots = { built: 0, sent: 0 };
  for (const { topic, records, state, isCurrent } of service.topics) {
    metrics.netplug_typha_records.set({ topic }, records.size);
    metrics.netplug_typha_record_bytes.set({ topic }, records.bytes);
    metrics.netplug_typha_topic_current.set({ topic }, isCurrent ? 1 : 0);
    metrics.netplug_typha_topic_age_seconds.set({ topic }, state.ageMs / 1000);
    snapshots.built += records.counts.built;
    snapshots.sent += records.counts.sent;
  }
  const behind = sessions.map((session) => session.behind).toSorted((a, b) => a - b);
  metrics.netplug_typha_changes_behind.set({ client: 'median' }, behind[behind.length >> 1] ?? 0);
  metrics.netplug_typha_changes_behind.set({ client: 'slowest' }, behind.at(-1) ?? 0);
  metrics.netplug_typha_snapshots_total.reset();
  for (const [outcome, count] of Object.entries(snapshots))
    metrics.netplug_typha_snapshots_total.inc({ outcome }, count);
  metrics.netplug_typha_refused_total.reset();
  metrics.netplug_typha_refused_total.inc(listener.refused);
  metrics.netplug_typha_token_reviews_total.reset();
  metrics.netplug_typha_token_reviews_total.inc(identity.reviews);
}
