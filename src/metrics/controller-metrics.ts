import { EVENT_LOOP_DELAY, type MetricTable } from './declared.ts';

const RUN_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];

/** Every metric of netplug-orch-controllers, in the order of the documentation. */
export const CONTROLLER_METRICS = {
  netplug_controllers_leading: { kind: 'gauge', help: '1 while this process leads, else 0.' },
  netplug_controllers_running: {
    kind: 'gauge',
    help: '1 for each controller that runs in this process.',
    labels: ['controller'],
  },
  netplug_controllers_reconciles_total: {
    kind: 'counter',
    help: 'Runs of a controller.',
    note: '`outcome` is `ok` or `failed`.',
    labels: ['controller', 'outcome'],
  },
  netplug_controllers_reconcile_duration_seconds: {
    kind: 'histogram',
    help: 'Duration of a run of a controller.',
    labels: ['controller'],
    buckets: RUN_BUCKETS,
  },
  netplug_controllers_changes_total: {
    kind: 'counter',
    help: 'Changes that a controller made.',
    note: '`change` is `create`, `update` or `delete`.',
    labels: ['controller', 'change'],
  },
  netplug_controllers_problems: {
    kind: 'gauge',
    help: 'Objects that a controller leaves alone or can use in part only; the log names them.',
    labels: ['controller'],
  },
  netplug_controllers_records: {
    kind: 'gauge',
    help: 'Records that a controller follows.',
    labels: ['controller'],
  },
  netplug_controllers_leaked_addresses: {
    kind: 'gauge',
    help: 'Addresses without a user that are released after the grace period.',
  },
  netplug_controllers_released_addresses_total: { kind: 'counter', help: 'Leaked addresses that were released.' },
  netplug_controllers_released_blocks_total: {
    kind: 'counter',
    help: 'Blocks of removed nodes that were released.',
  },
  netplug_controllers_agents: {
    kind: 'gauge',
    help: 'Nodes by the release of their agent.',
    note: '`version` is `unknown` where the agent has published none.',
    labels: ['version'],
  },
  netplug_controllers_pool_addresses: { kind: 'gauge', help: 'Addresses of the pool.', labels: ['pool'] },
  netplug_controllers_pool_free_addresses: {
    kind: 'gauge',
    help: 'Addresses of the pool that can be assigned.',
    labels: ['pool'],
  },
  netplug_controllers_pool_full_days: {
    kind: 'gauge',
    help: 'Days until the pool is full, with the growth of the last day; absent without growth.',
    labels: ['pool'],
  },
  netplug_event_loop_delay_seconds: EVENT_LOOP_DELAY,
} as const satisfies MetricTable;
