import { EVENT_LOOP_DELAY, type MetricTable } from './declared.ts';

/** Every metric of netplug-typha, in the order of the documentation. */
export const TYPHA_METRICS = {
  netplug_typha_clients: { kind: 'gauge', help: 'Agents that are connected.', labels: ['release'] },
  netplug_typha_records: { kind: 'gauge', help: 'Records of a topic.', labels: ['topic'] },
  netplug_typha_record_bytes: { kind: 'gauge', help: 'Length of the records of a topic as text.', labels: ['topic'] },
  netplug_typha_topic_current: {
    kind: 'gauge',
    help: '1 while a topic is followed at the API server, else 0.',
    labels: ['topic'],
  },
  netplug_typha_topic_age_seconds: {
    kind: 'gauge',
    help: 'Time since the API server was last heard of for a topic.',
    note: 'API servers send something about a silent kind once a minute.',
    labels: ['topic'],
  },
  netplug_typha_changes_behind: {
    kind: 'gauge',
    help: 'Changes that agents have not applied.',
    note: '`client` is `median` or `slowest`.',
    labels: ['client'],
  },
  netplug_typha_snapshots_total: {
    kind: 'counter',
    help: 'Snapshots of topics.',
    note: '`outcome` is `built` or `sent`: one that is built is sent to all who begin meanwhile.',
    labels: ['outcome'],
  },
  netplug_typha_refused_total: {
    kind: 'counter',
    help: 'Connections that were refused or given up before they were accepted.',
  },
  netplug_typha_token_reviews_total: { kind: 'counter', help: 'Tokens that the API server was asked about.' },
  netplug_event_loop_delay_seconds: EVENT_LOOP_DELAY,
} as const satisfies MetricTable;
