import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { sumByName } from '../../base/stopwatch.ts';
import type { CallRecord } from '../../cni/call-record.ts';
import { addressGauges, type AddressUsage } from './address-use.ts';
import { networkGauges, type NetworkStanding } from './network-gauges.ts';
import { eventLoopDelay } from './event-loop-delay.ts';

/** What the agent counts and measures, for Prometheus. */
export interface Metrics extends Disposable {
  readonly observeCall: (record: CallRecord) => void;
  readonly setCallsInFlight: (count: number) => void;
  readonly observeJournalSync: (ms: number) => void;
  /** Observes the wait for the named lock. Each name is a series, so there must be few. */
  readonly observeLockWait: (lock: string, ms: number) => void;
  /** Observes how long a pending write took to reach the datastore. */
  readonly observeWriteWait: (ms: number) => void;
  readonly countNetworkRestart: () => void;
  /** Everything in the text format of Prometheus. */
  render(): Promise<string>;
  readonly contentType: string;
}

/** The state of the agent at the moment of a scrape. */
export interface AgentStanding {
  readonly addresses: AddressUsage;
  /** The number of pending writes. */
  readonly waiting: number;
  readonly isDatastoreUp: boolean;
  /** Undefined with NETPLUG_NETWORKING=off, `down` while the network process does not answer. */
  readonly network: NetworkStanding | 'down' | undefined;
}

const CALL_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const WAIT_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30];

/** Registers all metrics. Calls `look` at each scrape. */
export function createMetrics(look: () => Promise<AgentStanding>): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const calls = new Counter({
    name: 'netplug_calls_total',
    help: 'Calls of the runtime that have ended, by error code, or "ok".',
    labelNames: ['command', 'code'],
    registers,
  });
  const callSeconds = new Histogram({
    name: 'netplug_call_duration_seconds',
    help: 'Time from the start of a call to its answer.',
    labelNames: ['command'],
    buckets: CALL_BUCKETS,
    registers,
  });
  const phaseSeconds = new Histogram({
    name: 'netplug_call_phase_duration_seconds',
    help: 'Time that a call spent in a phase, all stretches of it together.',
    labelNames: ['phase'],
    buckets: WAIT_BUCKETS,
    registers,
  });
  const inFlight = new Gauge({ name: 'netplug_calls_in_flight', help: 'Calls being served now.', registers });
  const wait = (name: string, help: string): Histogram =>
    new Histogram({ name, help, buckets: WAIT_BUCKETS, registers });
  const journalSeconds = wait('netplug_journal_sync_wait_seconds', 'Time until a change was safe in the journal.');
  const writeSeconds = wait('netplug_write_wait_seconds', 'Time until a change was in the datastore.');
  const queueDepth = new Gauge({
    name: 'netplug_pending_writes',
    help: 'Changes that wait to be written to the datastore.',
    registers,
  });
  const lockSeconds = new Histogram({
    name: 'netplug_lock_wait_seconds',
    help: 'Time until a lock was acquired.',
    labelNames: ['lock'],
    buckets: WAIT_BUCKETS,
    registers,
  });
  const datastoreUp = new Gauge({
    name: 'netplug_datastore_up',
    help: '1 when the last request to the datastore succeeded, else 0.',
    registers,
  });
  const networkRestarts = new Counter({
    name: 'netplug_network_restarts_total',
    help: 'Restarts of the network process after it ended unexpectedly.',
    registers,
  });
  const loop = eventLoopDelay(registers);
  const setAddresses = addressGauges(registers);
  const setNetwork = networkGauges(registers);
  return {
    observeCall: ({ command = 'unknown', totalMs, phases, failure }) => {
      calls.inc({ command, code: failure?.code ?? 'ok' });
      callSeconds.observe({ command }, totalMs / 1000);
      for (const [phase, ms] of Object.entries(sumByName(phases))) phaseSeconds.observe({ phase }, ms / 1000);
    },
    setCallsInFlight: (count) => {
      inFlight.set(count);
    },
    observeJournalSync: (ms) => {
      journalSeconds.observe(ms / 1000);
    },
    observeLockWait: (lock, ms) => {
      lockSeconds.observe({ lock }, ms / 1000);
    },
    observeWriteWait: (ms) => {
      writeSeconds.observe(ms / 1000);
    },
    countNetworkRestart: () => {
      networkRestarts.inc();
    },
    render: async () => {
      const { addresses, waiting, isDatastoreUp, network } = await look();
      setAddresses(addresses);
      setNetwork(network);
      queueDepth.set(waiting);
      datastoreUp.set(isDatastoreUp ? 1 : 0);
      loop.report();
      return registry.metrics();
    },
    contentType: registry.contentType,
    [Symbol.dispose]: () => {
      loop[Symbol.dispose]();
    },
  };
}
