import { AGENT_TARGET, CONTROLLER_TARGET } from './targets.ts';

/** A panel of the dashboard. */
export interface Panel {
  readonly type: 'timeseries' | 'stat';
  readonly title: string;
  readonly about: string;
  /** A unit of Grafana. */
  readonly unit: 'short' | 'ops' | 's' | 'percentunit' | 'pps';
  readonly max?: number;
  readonly isBadAbove?: number;
  /** Of 24 columns. */
  readonly width: number;
  readonly queries: readonly { readonly expr: string; readonly legend: string }[];
}

const CLUSTER = 'cluster=~"$cluster"';
const NODE = `${CLUSTER},node=~"$node"`;

export const PANEL_SECTIONS: readonly { readonly title: string; readonly panels: readonly Panel[] }[] = [
  {
    title: 'Overview',
    panels: [
      stat('Agents down', 'Agents that do not answer Prometheus.', [
        `count(up{job="${AGENT_TARGET.job}",${NODE}} == 0) or vector(0)`,
      ]),
      stat('Nodes without datastore', 'Agents whose last request to the datastore failed.', [
        `count(${agent('netplug_datastore_up')} == 0) or vector(0)`,
      ]),
      stat('Failing parts of the network', 'netplugctl node status on the node names them.', [
        `sum(${agent('netplug_network_problems')})`,
      ]),
      stat('Pods without policies', 'ADDs in the last hour that returned without the policies of their pod.', [
        `sum(increase(${agent('netplug_policy_enforcements_total', 'outcome="not-enforced"')}[1h]))`,
      ]),
      stat('Leaked addresses', 'Addresses without a user that wait for their release.', [
        `max(${controllers('netplug_controllers_leaked_addresses')})`,
      ]),
      {
        ...stat('Replicas of the controllers that lead', 'One, unless leadership changes now.', [
          `sum(${controllers('netplug_controllers_leading')})`,
        ]),
        isBadAbove: 2,
      },
    ],
  },
  {
    title: 'Calls of the runtime',
    panels: [
      series('Calls by outcome', { about: 'ADD, DEL and others, by error code or "ok".', unit: 'ops' }, [
        [`sum by (command, code) (${rate('netplug_calls_total')})`, '{{command}} {{code}}'],
      ]),
      series('Duration of ADD', { about: 'From the start of a call to its response.', unit: 's' }, [
        [quantile(0.5, rate('netplug_call_duration_seconds_bucket', 'command="ADD"')), 'median'],
        [quantile(0.99, rate('netplug_call_duration_seconds_bucket', 'command="ADD"')), '99 %'],
      ]),
      series('Phases of calls', { about: '99 % of calls spend at most this time in a phase.', unit: 's' }, [
        [quantile(0.99, rate('netplug_call_phase_duration_seconds_bucket'), 'phase'), '{{phase}}'],
      ]),
      series('Calls in flight', { about: 'Calls being served now.', unit: 'short' }, [
        [`sum by (node) (${agent('netplug_calls_in_flight')})`, '{{node}}'],
      ]),
      series('Waits for locks', { about: '99 % of calls wait at most this long.', unit: 's' }, [
        [quantile(0.99, rate('netplug_lock_wait_seconds_bucket'), 'lock'), '{{lock}}'],
      ]),
      series(
        'Event-loop delay',
        { about: 'How late the event loop of agents and controllers runs its timers.', unit: 's' },
        [
          [
            `max by (job, node) (${cluster('netplug_event_loop_delay_seconds', 'percentile="99"')})`,
            '{{job}} {{node}}',
          ],
        ],
      ),
    ],
  },
  {
    title: 'Addresses',
    panels: [
      {
        ...series(
          'Use of pools',
          { about: 'Held addresses of each pool, in all selected clusters.', unit: 'percentunit' },
          [
            [
              `sum by (cluster, pool) (${cluster('netplug_pool_addresses', 'state="held"')}) / max by (cluster, pool) (${cluster('netplug_pool_size')})`,
              '{{cluster}} {{pool}}',
            ],
          ],
        ),
        max: 1,
      },
      series('Addresses in blocks of the nodes', { about: 'Free, held and pre-allocated ones.', unit: 'short' }, [
        [`sum by (pool, state) (${agent('netplug_pool_addresses')})`, '{{pool}} {{state}}'],
      ]),
      series('Full blocks', { about: 'Blocks without a free address.', unit: 'short' }, [
        [`count by (pool) (${agent('netplug_block_addresses', 'state="free"')} == 0)`, '{{pool}}'],
      ]),
    ],
  },
  {
    title: 'Datastore',
    panels: [
      series('Pending writes', { about: 'Changes waiting to be written to the datastore.', unit: 'short' }, [
        [agent('netplug_pending_writes'), '{{node}}'],
      ]),
      series('Token of the plugin', { about: 'Time until it expires.', unit: 's' }, [
        [agent('netplug_cni_token_expiry_seconds'), '{{node}}'],
      ]),
      series('Time to the datastore', { about: '99 % of changes are written within this time.', unit: 's' }, [
        [quantile(0.99, rate('netplug_write_wait_seconds_bucket')), 'write'],
      ]),
      series(
        'Time to the journal',
        { about: '99 % of changes are synced to the local disk within this time.', unit: 's' },
        [[quantile(0.99, rate('netplug_journal_sync_wait_seconds_bucket'), 'node'), '{{node}}']],
      ),
    ],
  },
  {
    title: 'Network between nodes',
    panels: [
      series('Failing parts', { about: 'By node.', unit: 'short' }, [[agent('netplug_network_problems'), '{{node}}']]),
      series('Routes', { about: 'By how packets leave.', unit: 'short' }, [
        [`sum by (node, hop) (${agent('netplug_routes')})`, '{{node}} {{hop}}'],
        [`sum by (node) (${agent('netplug_tunnel_peers')})`, '{{node}} tunnel peers'],
      ]),
      series('Changes of routes', { about: 'Sent to the kernel, and full comparisons with it.', unit: 'ops' }, [
        [`sum(${rate('netplug_route_changes_total')})`, 'changes'],
        [`sum(${rate('netplug_route_comparisons_total')})`, 'comparisons'],
      ]),
      series('Restarts of the network process', { about: 'In the last hour.', unit: 'short' }, [
        [`increase(${agent('netplug_network_restarts_total')}[1h])`, '{{node}}'],
      ]),
    ],
  },
  {
    title: 'Policies',
    panels: [
      series('Packets', { about: 'Of new connections, by verdict and policy.', unit: 'pps' }, [
        [
          `topk(20, sum by (verdict, policy, direction) (${rate('netplug_policy_packets_total')}))`,
          '{{verdict}} {{policy}} {{direction}}',
        ],
      ]),
      series('Policies of new pods', { about: 'How they stood when ADD returned.', unit: 'ops' }, [
        [`sum by (outcome) (${rate('netplug_policy_enforcements_total')})`, '{{outcome}}'],
      ]),
      series('Lost reports', { about: 'Reports of packets that the agent did not receive.', unit: 'ops' }, [
        [`sum by (node) (${rate('netplug_policy_reports_lost_total')})`, '{{node}}'],
      ]),
    ],
  },
  {
    title: 'Controllers',
    panels: [
      series('Runs', { about: 'By controller and outcome.', unit: 'ops' }, [
        [
          `sum by (controller, outcome) (rate(${controllers('netplug_controllers_reconciles_total')}[$__rate_interval]))`,
          '{{controller}} {{outcome}}',
        ],
      ]),
      series('Duration of runs', { about: '99 % of runs take at most this long.', unit: 's' }, [
        [
          quantile(
            0.99,
            `rate(${controllers('netplug_controllers_reconcile_duration_seconds_bucket')}[$__rate_interval])`,
            'controller',
          ),
          '{{controller}}',
        ],
      ]),
      series('Changes', { about: 'Made in datastore and orchestrator.', unit: 'ops' }, [
        [
          `sum by (controller, change) (rate(${controllers('netplug_controllers_changes_total')}[$__rate_interval]))`,
          '{{controller}} {{change}}',
        ],
      ]),
      series('Objects left alone', { about: 'The log of the leader names them.', unit: 'short' }, [
        [
          `sum by (controller) (${controllers('netplug_controllers_problems')} and ${controllers('netplug_controllers_running')} == 1)`,
          '{{controller}}',
        ],
      ]),
      series('Followed records', { about: 'By controller.', unit: 'short' }, [
        [`sum by (controller) (${controllers('netplug_controllers_records')})`, '{{controller}}'],
      ]),
      series('Agents by release', { about: 'Nodes by the release of their agent.', unit: 'short' }, [
        [`sum by (version) (${controllers('netplug_controllers_agents')})`, '{{version}}'],
      ]),
      series('Free addresses of pools', { about: 'As the leader counts them.', unit: 'percentunit' }, [
        [
          `max by (cluster, pool) (${controllers('netplug_controllers_pool_free_addresses')}) / max by (cluster, pool) (${controllers('netplug_controllers_pool_addresses')})`,
          '{{cluster}} {{pool}}',
        ],
      ]),
      series('Days until a pool is full', { about: 'With the growth of the last day.', unit: 'short' }, [
        [`min by (cluster, pool) (${controllers('netplug_controllers_pool_full_days')})`, '{{cluster}} {{pool}}'],
      ]),
      series(
        'Released addresses and blocks',
        { about: 'Leaked addresses, and blocks of removed nodes, in the last hour.', unit: 'short' },
        [
          [`sum(increase(${controllers('netplug_controllers_released_addresses_total')}[1h]))`, 'addresses'],
          [`sum(increase(${controllers('netplug_controllers_released_blocks_total')}[1h]))`, 'blocks'],
        ],
      ),
    ],
  },
];

function agent(metric: string, more?: string): string {
  return `${metric}{${more === undefined ? NODE : `${NODE},${more}`}}`;
}

function controllers(metric: string): string {
  return `${metric}{job="${CONTROLLER_TARGET.job}",${CLUSTER}}`;
}

function cluster(metric: string, more?: string): string {
  return `${metric}{${more === undefined ? CLUSTER : `${CLUSTER},${more}`}}`;
}

function rate(metric: string, more?: string): string {
  return `rate(${agent(metric, more)}[$__rate_interval])`;
}

function quantile(share: number, buckets: string, by?: string): string {
  return `histogram_quantile(${String(share)}, sum by (${by === undefined ? 'le' : `${by}, le`}) (${buckets}))`;
}

function stat(title: string, about: string, exprs: readonly string[]): Panel {
  const queries = exprs.map((expr) => ({ expr, legend: title }));
  return { type: 'stat', title, about, unit: 'short', isBadAbove: 1, width: 4, queries };
}

function series(
  title: string,
  { about, unit }: Pick<Panel, 'about' | 'unit'>,
  queries: readonly (readonly [expr: string, legend: string])[],
): Panel {
  return {
    type: 'timeseries',
    title,
    about,
    unit,
    width: 8,
    queries: queries.map(([expr, legend]) => ({ expr, legend })),
  };
}
