import type { PoolOutlook } from '../../ipam/forecast/pool-outlook.ts';
import { CONTROLLER_METRICS } from '../../metrics/controller-metrics.ts';
import { registerMetrics } from '../../metrics/register.ts';
import { eventLoopDelay } from '../../runtime/event-loop-delay.ts';
import type { MetricsPage } from '../../runtime/health-server.ts';

/** Counters and measurements of the controllers, for Prometheus. */
export interface ControllerMetrics extends MetricsPage, Disposable {
  readonly addresses: AddressMetrics;
  readonly cluster: ClusterMetrics;
  readonly setLeading: (isLeading: boolean) => void;
  readonly setRunning: (controller: string, isRunning: boolean) => void;
  readonly observeRun: (controller: string, run: { readonly ms: number; readonly failed: boolean }) => void;
  readonly countChange: (controller: string, kind: string) => void;
  readonly setProblems: (controller: string, count: number) => void;
  readonly setRecords: (controller: string, count: number) => void;
}

/** Counters of the garbage collection of addresses. */
interface AddressMetrics {
  readonly setCandidates: (count: number) => void;
  readonly countReleased: (count: number) => void;
  readonly countBlocks: (count: number) => void;
}

/** Facts about the cluster as a whole. */
interface ClusterMetrics {
  /** Takes the number of agents of each release. */
  readonly setAgents: (versions: ReadonlyMap<string, number>) => void;
  readonly setPools: (pools: readonly PoolOutlook[]) => void;
}

export function createControllerMetrics(): ControllerMetrics {
  const { registry, metrics } = registerMetrics(CONTROLLER_METRICS);
  const {
    netplug_controllers_running: running,
    netplug_controllers_problems: problems,
    netplug_controllers_records: records,
    netplug_controllers_agents: agents,
    netplug_controllers_pool_addresses: poolAddresses,
    netplug_controllers_pool_free_addresses: poolFree,
    netplug_controllers_pool_full_days: poolFullDays,
  } = metrics;
  metrics.netplug_controllers_leading.set(0);
  const loop = eventLoopDelay(metrics.netplug_event_loop_delay_seconds);
  const addresses: AddressMetrics = {
    setCandidates: (count) => metrics.netplug_controllers_leaked_addresses.set(count),
    countReleased: (count) => metrics.netplug_controllers_released_addresses_total.inc(count),
    countBlocks: (count) => metrics.netplug_controllers_released_blocks_total.inc(count),
  };
  const cluster: ClusterMetrics = {
    setAgents: (versions) => {
      agents.reset();
      for (const [version, count] of versions) agents.set({ version }, count);
    },
    setPools: (pools) => {
      for (const gauge of [poolAddresses, poolFree, poolFullDays]) gauge.reset();
      for (const { name: pool, ...each } of pools) {
        poolAddresses.set({ pool }, Number(each.addresses));
        poolFree.set({ pool }, Number(each.free));
        if (each.fullInDays !== undefined) poolFullDays.set({ pool }, each.fullInDays);
      }
    },
  };
  return {
    addresses,
    cluster,
    setLeading: (isLeading) => {
      metrics.netplug_controllers_leading.set(isLeading ? 1 : 0);
      if (isLeading) return;
      // What only the leader knows.
      addresses.setCandidates(0);
      cluster.setAgents(new Map());
      cluster.setPools([]);
    },
    setRunning: (controller, isRunning) => {
      if (isRunning) running.set({ controller }, 1);
      else for (const gauge of [running, problems, records]) gauge.remove({ controller });
    },
    observeRun: (controller, { ms, failed }) => {
      metrics.netplug_controllers_reconciles_total.inc({ controller, outcome: failed ? 'failed' : 'ok' });
      metrics.netplug_controllers_reconcile_duration_seconds.observe({ controller }, ms / 1000);
    },
    countChange: (controller, change) => {
      metrics.netplug_controllers_changes_total.inc({ controller, change });
    },
    setProblems: (controller, count) => {
      problems.set({ controller }, count);
    },
    setRecords: (controller, count) => {
      records.set({ controller }, count);
    },
    render: async () => {
      loop.report();
      return registry.metrics();
    },
    contentType: registry.contentType,
    [Symbol.dispose]: () => loop[Symbol.dispose](),
  };
}
