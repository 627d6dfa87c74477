import { AGENT_TARGET, CONTROLLER_TARGET } from './targets.ts';

/** An alert of Prometheus. */
export interface Alert {
  readonly name: string;
  readonly severity: 'warning' | 'critical';
  readonly expr: string;
  /** How long the expression must hold. */
  readonly holdsFor: string;
  /** One line; may use `{{ $labels.node }}` and `{{ $value }}`. */
  readonly summary: string;
  /** What the condition means for pods. */
  readonly description: string;
  /** What to do, in order; Markdown. */
  readonly runbook: readonly string[];
}

const AGENT_UP = `up{job="${AGENT_TARGET.job}"}`;
const CONTROLLERS_UP = `up{job="${CONTROLLER_TARGET.job}"}`;
const POOL_USE =
  'sum by (cluster, pool) (netplug_pool_addresses{state="held"}) / max by (cluster, pool) (netplug_pool_size)';
const POOL_RUNBOOK = [
  '`netplugctl ipam show` lists the pools with their use, `netplugctl ipam forecast` when they are full.',
  '`netplugctl ipam check` lists leaked addresses; `--fix` releases them.',
  'Add a pool: pools that select the same nodes are used together.',
];

const AGENT_ALERTS: readonly Alert[] = [
  {
    name: 'NetplugAgentDown',
    severity: 'warning',
    expr: `${AGENT_UP} == 0`,
    holdsFor: '5m',
    summary: 'netplug-agent does not answer on node {{ $labels.node }}.',
    description:
      'Pods that run keep their network. New pods start more slowly and without their policies in force, and changes of routes and policies do not reach the node.',
    runbook: [
      "Read the agent's log: `kubectl -n netplug-system logs -l app.kubernetes.io/name=netplug-node --field-selector spec.nodeName=NODE`, on a host without an orchestrator `journalctl -u netplug-agent`.",
      '`netplugctl doctor` on the node names what is wrong.',
      'When the agent runs and is healthy, check `NETPLUG_METRICS_ADDRESS` and that the host accepts connections of Prometheus.',
    ],
  },
  {
    name: 'NetplugAgentsMissing',
    severity: 'critical',
    expr: `absent(${AGENT_UP})`,
    holdsFor: '10m',
    summary: 'Prometheus has no netplug-agent to scrape.',
    description: 'No agent runs, or Prometheus does not find the agents. No other alert about agents can fire.',
    runbook: [
      '`kubectl -n netplug-system get daemonset netplug-node` shows whether agents run.',
      'Check that Prometheus selects the PodMonitors: `kubectl -n netplug-system get podmonitors`, and `podMonitorSelector` and `podMonitorNamespaceSelector` of the Prometheus.',
    ],
  },
  {
    name: 'NetplugNetworkFailing',
    severity: 'warning',
    expr: 'netplug_network_problems > 0',
    holdsFor: '10m',
    summary: '{{ $value }} parts of the network of node {{ $labels.node }} are failing.',
    description: 'Routes, tunnels, translation, BGP or policies of the node are not in their desired state.',
    runbook: [
      '`netplugctl node status` on the node lists every part with the reason.',
      "The agent's log has `reconcile failed` with the reason, and `reconcile recovered` after it.",
    ],
  },
  {
    name: 'NetplugNetworkProcessRestarting',
    severity: 'warning',
    expr: 'increase(netplug_network_restarts_total[30m]) > 3',
    holdsFor: '0m',
    summary: 'The network process of node {{ $labels.node }} ends again and again.',
    description: 'The kernel keeps routes and policies meanwhile, but changes reach the node late.',
    runbook: [
      "The agent's log has `network process exited, kernel state kept` with the reason.",
      'Check the memory limit of the container: a process that the kernel ended for want of memory has no reason of its own.',
    ],
  },
  {
    name: 'NetplugDatastoreUnavailable',
    severity: 'warning',
    expr: 'netplug_datastore_up == 0',
    holdsFor: '5m',
    summary: 'The agent of node {{ $labels.node }} cannot use the datastore.',
    description:
      'Pods start while the warm pool of the node has addresses, and can always be removed. Then ADD fails. Routes and policies do not change.',
    runbook: [
      '`netplugctl doctor` on the node tries the connection and names the reason: network, certificate, rights or the datastore itself.',
      'On etcd, `etcdctl endpoint health` and `etcdctl alarm list` with the certificates of the agent.',
    ],
  },
  {
    name: 'NetplugDatastoreUnavailableOnMostNodes',
    severity: 'critical',
    expr: 'count by (cluster) (netplug_datastore_up == 0) / count by (cluster) (netplug_datastore_up) > 0.5',
    holdsFor: '3m',
    summary: 'Most agents cannot use the datastore.',
    description: 'The cluster lives on the warm pools of its nodes. When one is empty, no pod starts on its node.',
    runbook: [
      'Restore the datastore first: quorum and disk space of etcd, or the API server.',
      'Leave agents running: a restarted agent has no warm pool until the datastore is available.',
    ],
  },
  {
    name: 'NetplugPoolFillingUp',
    severity: 'warning',
    expr: `${POOL_USE} > 0.85`,
    holdsFor: '15m',
    summary: '{{ $value | humanizePercentage }} of pool {{ $labels.pool }} are held.',
    description: 'When the pool is full, pods that need an address of it do not start.',
    runbook: POOL_RUNBOOK,
  },
  {
    name: 'NetplugPoolAlmostFull',
    severity: 'critical',
    expr: `${POOL_USE} > 0.97`,
    holdsFor: '5m',
    summary: '{{ $value | humanizePercentage }} of pool {{ $labels.pool }} are held.',
    description: 'Pods that need an address of the pool fail to start now or very soon.',
    runbook: POOL_RUNBOOK,
  },
  {
    name: 'NetplugPoliciesNotEnforced',
    severity: 'critical',
    expr: 'increase(netplug_policy_enforcements_total{outcome="not-enforced"}[15m]) > 0',
    holdsFor: '0m',
    summary: 'Pods started on node {{ $labels.node }} without their policies.',
    description: 'The network of these pods asks for policies (`policy.type: orch`), and none applies to them.',
    runbook: [
      'The log of the calls has `policies not enforced` with pod and reason.',
      'With `NETPLUG_POLICY=off` or `NETPLUG_NETWORKING=off` on the node: remove the setting, or `policy.type` from the network configuration.',
      'On etcd: netplug-orch-controllers must make the profile of each namespace; see NetplugControllersWithoutLeader.',
      'When the kernel refuses the rules: `netplugctl node status` has the reason.',
      'Pods that run are subject to policies as soon as the node enforces them; they need no restart.',
    ],
  },
  {
    name: 'NetplugPoliciesDelayed',
    severity: 'warning',
    expr: 'increase(netplug_policy_enforcements_total{outcome="delayed"}[10m]) > 0',
    holdsFor: '10m',
    summary: 'Pods of node {{ $labels.node }} wait for their policies.',
    description: 'ADD returned before the policies of its pod were in force. The pod has no network until they are.',
    runbook: [
      'Check that the network process runs: NetplugNetworkProcessRestarting, NetplugNetworkFailing.',
      'On a busy node, look at CPU limits and at `netplug_event_loop_delay_seconds`.',
    ],
  },
  {
    name: 'NetplugTokenExpiring',
    severity: 'warning',
    expr: 'netplug_cni_token_expiry_seconds < 3600',
    holdsFor: '10m',
    summary: "The token of the plugin's account on node {{ $labels.node }} is not renewed.",
    description:
      'The agent renews a token when at most three quarters of its lifetime are left. When it expires, calls that read pods from the API of the orchestrator fail.',
    runbook: [
      "The agent's log has `credentials of the plugin not renewed` with the reason.",
      'Check that the account of `NETPLUG_CNI_ACCOUNT` exists, and that the agent may create tokens for it: docs/rights.md.',
      '`netplugctl doctor` on the node reads the token and its expiry.',
      'Where the API server issues tokens of less than two hours, raise their lifetime or silence this alert.',
    ],
  },
  {
    name: 'NetplugTokenExpired',
    severity: 'critical',
    expr: 'netplug_cni_token_expiry_seconds <= 0',
    holdsFor: '0m',
    summary: "The token of the plugin's account on node {{ $labels.node }} has expired.",
    description: 'Calls that read pods from the API of the orchestrator fail.',
    runbook: ['See NetplugTokenExpiring.'],
  },
  {
    name: 'NetplugAddErrors',
    severity: 'warning',
    expr: 'sum by (cluster, node) (rate(netplug_calls_total{command="ADD",code!="ok"}[10m])) / sum by (cluster, node) (rate(netplug_calls_total{command="ADD"}[10m])) > 0.1',
    holdsFor: '10m',
    summary: '{{ $value | humanizePercentage }} of ADD calls fail on node {{ $labels.node }}.',
    description: 'The runtime tries again, so pods start late or not at all.',
    runbook: [
      '`sum by (code) (rate(netplug_calls_total{command="ADD",code!="ok"}[10m]))` names the codes; docs/errors.md says what each means.',
      '`netplugctl trace` on the node shows the last calls, `kubectl describe pod` the error with its remedy.',
    ],
  },
  {
    name: 'NetplugAddSlow',
    severity: 'warning',
    expr: 'histogram_quantile(0.99, sum by (cluster, node, le) (rate(netplug_call_duration_seconds_bucket{command="ADD"}[10m]))) > 5',
    holdsFor: '10m',
    summary: 'One in a hundred ADD calls takes more than {{ $value | humanizeDuration }} on node {{ $labels.node }}.',
    description: 'Pods start slowly.',
    runbook: [
      '`netplugctl trace` on the node shows in which phase the last calls spent their time; docs/netplug-agent.md describes the phases.',
      '`gates` waits for the readiness gates of the configuration, `orchestrator` and `store` for a server, `kernel` for the machine.',
    ],
  },
];

const CONTROLLER_ALERTS: readonly Alert[] = [
  {
    name: 'NetplugControllersWithoutLeader',
    severity: 'critical',
    expr: `sum by (cluster) (netplug_controllers_leading) == 0 or sum by (cluster) (${CONTROLLERS_UP}) == 0`,
    holdsFor: '3m',
    summary: 'No replica of netplug-orch-controllers leads.',
    description:
      'Leaked addresses and blocks of removed nodes are not released. On etcd, new policies, namespaces and service accounts do not reach the agents.',
    runbook: [
      '`kubectl -n netplug-system get pods -l app.kubernetes.io/name=netplug-orch-controllers` shows whether replicas run.',
      'Their log has `leader lease unavailable` with the reason: connection or rights on the lease.',
    ],
  },
  {
    name: 'NetplugControllerFailing',
    severity: 'warning',
    expr: 'sum by (cluster, controller) (rate(netplug_controllers_reconciles_total{outcome="failed"}[10m])) / sum by (cluster, controller) (rate(netplug_controllers_reconciles_total[10m])) > 0.5',
    holdsFor: '15m',
    summary: 'Most runs of controller {{ $labels.controller }} fail.',
    description: 'What the controller copies or cleans up is outdated; docs/controllers.md says what each one does.',
    runbook: ['The log of the leader has `reconcile failed` with controller and reason.'],
  },
  {
    name: 'NetplugAddressesLeaked',
    severity: 'warning',
    expr: 'max by (cluster) (netplug_controllers_leaked_addresses) > 0',
    holdsFor: '2h',
    summary: '{{ $value }} addresses have had no user for hours and are still held.',
    description:
      'The controllers release leaked addresses after a grace period (15 minutes unless set). These stay, so they are missing from their pools.',
    runbook: [
      '`netplugctl ipam check` lists them with the reason; `--fix` releases them.',
      "The leader's log has `leaked addresses found` and, when a release fails, `reconcile failed`.",
      'Garbage collection stops while a node or the orchestrator cannot be observed completely: see NetplugControllerFailing.',
    ],
  },
];

/** Every alert, by the program that it watches. */
export const ALERT_GROUPS: readonly { readonly name: string; readonly alerts: readonly Alert[] }[] = [
  { name: 'netplug-agent', alerts: AGENT_ALERTS },
  { name: 'netplug-orch-controllers', alerts: CONTROLLER_ALERTS },
];
