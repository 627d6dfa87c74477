import { EVENT_LOOP_DELAY, type MetricTable } from './declared.ts';

const RUN_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60];

/** Every metric of netplug-operator, in the order of the documentation. */
export const OPERATOR_METRICS = {
  netplug_operator_leading: { kind: 'gauge', help: '1 while this process leads, else 0.' },
  netplug_operator_installation_condition: {
    kind: 'gauge',
    help: '1 for the status of each condition of the installation; no series without an installation.',
    labels: ['condition', 'status'],
  },
  netplug_operator_reconciles_total: {
    kind: 'counter',
    help: 'Runs.',
    note: '`outcome` is `ok` or `failed`.',
    labels: ['outcome'],
  },
  netplug_operator_reconcile_duration_seconds: { kind: 'histogram', help: 'Duration of a run.', buckets: RUN_BUCKETS },
  netplug_operator_changes_total: {
    kind: 'counter',
    help: 'Objects that were written.',
    note: '`change` is `created`, `updated`, `restored`, `taken over` or `pruned`.',
    labels: ['change'],
  },
  netplug_event_loop_delay_seconds: EVENT_LOOP_DELAY,
} as const satisfies MetricTable;
