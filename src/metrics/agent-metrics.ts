import { EVENT_LOOP_DELAY, type MetricTable } from './declared.ts';

const CALL_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const WAIT_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30];

/** Every metric of netplug-agent, in the order of the documentation. */
export const AGENT_METRICS = {
  netplug_calls_total: {
    kind: 'counter',
    help: 'Calls that have ended.',
    note: '`code` is `ok`, one of [errors](errors.md), or `delegate/refused` when a delegated plugin answered with an error of its own.',
    labels: ['command', 'code'],
  },
  netplug_call_duration_seconds: {
    kind: 'histogram',
    help: 'Time from the start of a call to its response.',
    labels: ['command'],
    buckets: CALL_BUCKETS,
  },
  netplug_call_phase_duration_seconds: {
    kind: 'histogram',
    help: 'Time that a call spent in a phase, in total.',
    note: 'See [traces](#traces).',
    labels: ['phase'],
    buckets: WAIT_BUCKETS,
  },
  netplug_calls_in_flight: { kind: 'gauge', help: 'Calls being served now.' },
  netplug_journal_sync_wait_seconds: {
    kind: 'histogram',
    help: 'Time until a change was synced to the journal.',
    buckets: WAIT_BUCKETS,
  },
  netplug_lock_wait_seconds: {
    kind: 'histogram',
    help: 'Time until a lock was acquired.',
    note: '`lock` is `container` (held by an earlier call of the same container) or `agent` (by the previous agent).',
    labels: ['lock'],
    buckets: WAIT_BUCKETS,
  },
  netplug_pending_writes: { kind: 'gauge', help: 'Changes waiting to be written to the datastore.' },
  netplug_write_wait_seconds: {
    kind: 'histogram',
    help: 'Time until a change was written to the datastore.',
    buckets: WAIT_BUCKETS,
  },
  netplug_pool_addresses: {
    kind: 'gauge',
    help: 'Addresses of a pool in the blocks of this node, by state.',
    note: '`state` is `free`, `held` or `preallocated`.',
    labels: ['pool', 'state'],
  },
  netplug_pool_size: {
    kind: 'gauge',
    help: 'Addresses of a pool in the whole cluster, used or not.',
    labels: ['pool'],
  },
  netplug_block_addresses: {
    kind: 'gauge',
    help: 'Addresses of a block of this node, by state.',
    note: '`state` is as in `netplug_pool_addresses`.',
    labels: ['pool', 'block', 'state'],
  },
  netplug_datastore_up: { kind: 'gauge', help: '1 if the last request to the datastore succeeded, else 0.' },
  netplug_cni_token_expiry_seconds: {
    kind: 'gauge',
    help: "Seconds until the token of the plugin's account expires; below 0 after that.",
    note: 'No series when the agent does not renew one.',
  },
  netplug_routes: {
    kind: 'gauge',
    help: 'Routes the agent maintains, by how packets leave.',
    note: "`hop` is `blackhole`, `direct` or `tunnelled`. Those of BGP are BIRD's.",
    labels: ['hop'],
  },
  netplug_tunnel_peers: { kind: 'gauge', help: 'Remote nodes of the VXLAN devices.' },
  netplug_route_changes_total: {
    kind: 'counter',
    help: 'Changes of routes and peers sent to the kernel since the network process started.',
  },
  netplug_route_comparisons_total: {
    kind: 'counter',
    help: 'Full comparisons of routes with the kernel since the network process started.',
  },
  netplug_pod_links_restored_total: {
    kind: 'counter',
    help: 'Interfaces of pods whose routes or settings on the node were restored since the network process started.',
  },
  netplug_node_problems: {
    kind: 'gauge',
    labels: ['severity'],
    help: 'What the agent knows to be wrong on its node: `error`, when pods may be without network, or `warning`.',
  },
  netplug_typha_connected: {
    kind: 'gauge',
    help: '1 while a server of netplug-typha serves the node, else 0; no series where it is not used.',
  },
  netplug_typha_heard_seconds: { kind: 'gauge', help: 'Time since the server of netplug-typha was last heard of.' },
  netplug_typha_moves_total: { kind: 'counter', help: 'Moves to another server of netplug-typha.' },
  netplug_typha_moved_records_total: {
    kind: 'counter',
    help: 'Records that differed after moves to another server of netplug-typha.',
  },
  netplug_policy_enforcements_total: {
    kind: 'counter',
    help: 'Pods whose ADD asked for policies, by the state of these when ADD returned.',
    note: '`outcome` is `enforced`, `delayed` (the pod has no network until its policies are in force) or `not-enforced`; see [policies](#policies).',
    labels: ['outcome'],
  },
  netplug_policy_packets_total: {
    kind: 'counter',
    help: 'Packets of new connections that policies denied or logged, or that staged policies matched.',
    labels: ['verdict', 'policy', 'direction'],
  },
  netplug_policies_closed: {
    kind: 'gauge',
    help: 'Policies that deny everything, because they are beyond a budget or the kernel refuses their rules.',
  },
  netplug_policy_lag_seconds: {
    kind: 'gauge',
    help: 'How long the oldest change of policies that the agent knows has waited to be in the kernel; 0 when none waits.',
  },
  netplug_policy_reports_lost_total: {
    kind: 'counter',
    help: 'Reports of denied or logged packets that the agent did not receive.',
  },
  netplug_sidecars: {
    kind: 'gauge',
    help: 'Pods of the node that declare a netplug-sidecar, by what is known of it.',
    note: '`state` is `waiting`, `unproven`, `guarding` or `lapsed`; see [what is shown](netplug-sidecar.md#what-is-shown).',
    labels: ['state'],
  },
  netplug_sidecars_closed: {
    kind: 'gauge',
    help: 'Pods with a netplug-sidecar and rules with `http` that open nothing, because no port is shown to be judged.',
  },
  netplug_requests_total: {
    kind: 'counter',
    help: 'Requests that netplug-sidecars of the node say they judged.',
    note: '`policy` is `none` where no single policy decided. What runs in a pod can say of its own requests what it likes.',
    labels: ['verdict', 'policy'],
  },
  netplug_network_restarts_total: {
    kind: 'counter',
    help: 'Restarts of the network process after it ended unexpectedly.',
  },
  netplug_event_loop_delay_seconds: EVENT_LOOP_DELAY,
} as const satisfies MetricTable;
