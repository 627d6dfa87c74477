import { sumByName } from '../../base/stopwatch.ts';
import type { CallRecord } from '../../cni/call-record.ts';
import type { Isolation } from '../../cni/pod-isolation.ts';
import { countProblems, NODE_SEVERITIES, type NodeProblem } from '../../model/node-report.ts';
import { AGENT_METRICS } from '../../metrics/agent-metrics.ts';
import { registerMetrics } from '../../metrics/register.ts';
import { eventLoopDelay } from '../../runtime/event-loop-delay.ts';
import type { MetricsPage } from '../../runtime/health-server.ts';
import { type AddressUsage, setAddresses } from './address-use.ts';
import { type NetworkStanding, setNetwork } from './network-gauges.ts';

/** Counters and measurements of the agent, for Prometheus. */
export interface Metrics extends MetricsPage, Disposable {
  readonly observeCall: (record: CallRecord) => void;
  readonly setCallsInFlight: (count: number) => void;
  readonly observeJournalSync: (ms: number) => void;
  /** Observes the wait for the named lock. Each name is a series, so there must be few. */
  readonly observeLockWait: (lock: string, ms: number) => void;
  /** Observes how long a pending write took to reach the datastore. */
  readonly observeWriteWait: (ms: number) => void;
  readonly countNetworkRestart: () => void;
  /** Counts a pod whose ADD asked for policies, by how these stood when ADD returned. */
  readonly countIsolation: (state: Isolation['state']) => void;
}

/** The state of the agent at the moment of a scrape. */
export interface AgentStanding {
  readonly addresses: AddressUsage;
  /** The number of pending writes. */
  readonly waiting: number;
  readonly isDatastoreUp: boolean;
  /** Undefined with NETPLUG_NETWORKING=off, and while the network process does not answer. */
  readonly network: NetworkStanding | undefined;
  readonly problems: readonly NodeProblem[];
  /** Seconds until the token of the plugin's account expires; undefined when the agent does not renew one. */
  readonly tokenSecondsLeft: number | undefined;
}

const OUTCOMES: Readonly<Record<Isolation['state'], string>> = {
  'in force': 'enforced',
  closed: 'delayed',
  'not enforced': 'not-enforced',
};

/** Registers all metrics. Calls `look` at each scrape. */
export function createMetrics(look: () => Promise<AgentStanding>): Metrics {
  const { registry, metrics } = registerMetrics(AGENT_METRICS);
  // Without a sample from the start, Prometheus does not see the first increase.
  for (const outcome of Object.values(OUTCOMES)) metrics.netplug_policy_enforcements_total.inc({ outcome }, 0);
  // Without a token there is no series, because 0 would mean an expired one.
  metrics.netplug_cni_token_expiry_seconds.remove();
  const loop = eventLoopDelay(metrics.netplug_event_loop_delay_seconds);
  return {
    observeCall: ({ command = 'unknown', totalMs, phases, failure }) => {
      metrics.netplug_calls_total.inc({ command, code: failure?.code ?? 'ok' });
      metrics.netplug_call_duration_seconds.observe({ command }, totalMs / 1000);
      for (const [phase, ms] of Object.entries(sumByName(phases)))
        metrics.netplug_call_phase_duration_seconds.observe({ phase }, ms / 1000);
    },
    setCallsInFlight: (count) => {
      metrics.netplug_calls_in_flight.set(count);
    },
    observeJournalSync: (ms) => {
      metrics.netplug_journal_sync_wait_seconds.observe(ms / 1000);
    },
    observeLockWait: (lock, ms) => {
      metrics.netplug_lock_wait_seconds.observe({ lock }, ms / 1000);
    },
    observeWriteWait: (ms) => {
      metrics.netplug_write_wait_seconds.observe(ms / 1000);
    },
    countNetworkRestart: () => {
      metrics.netplug_network_restarts_total.inc();
    },
    countIsolation: (state) => {
      metrics.netplug_policy_enforcements_total.inc({ outcome: OUTCOMES[state] });
    },
    render: async () => {
      const { addresses, waiting, isDatastoreUp, network, problems, tokenSecondsLeft } = await look();
      setAddresses(metrics, addresses);
      setNetwork(metrics, network);
      for (const severity of NODE_SEVERITIES)
        metrics.netplug_node_problems.set({ severity }, countProblems(problems, severity));
      if (tokenSecondsLeft !== undefined) metrics.netplug_cni_token_expiry_seconds.set(tokenSecondsLeft);
      metrics.netplug_pending_writes.set(waiting);
      metrics.netplug_datastore_up.set(isDatastoreUp ? 1 : 0);
      loop.report();
      return registry.metrics();
    },
    contentType: registry.contentType,
    [Symbol.dispose]: () => {
      loop[Symbol.dispose]();
    },
  };
}
