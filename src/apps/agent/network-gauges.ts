import type { AGENT_METRICS } from '../../metrics/agent-metrics.ts';
import type { Registered } from '../../metrics/register.ts';
import type { GuardState } from './network/sidecars/pod-guard.ts';
import type { FlowStanding } from './network/flows/flow-observer.ts';

/** The state of the node's network at the moment of a scrape. */
export interface NetworkStanding {
  /** Desired routes, by the way in which packets leave. */
  readonly routes: Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;
  readonly peers: number;
  /** Changes of routes and peers sent to the kernel since the start. */
  readonly changes: number;
  /** Full comparisons with the kernel since the start. */
  readonly comparisons: number;
  /** Links of pods whose host side was made whole again since the start. */
  readonly restoredLinks: number;
  /** Policies that deny everything, because they are beyond a budget or refused. */
  readonly closedPolicies: number;
  /** How long the oldest change of policies that is known has waited to be in the kernel. */
  readonly policyLagSeconds: number;
  readonly sidecars: SidecarGauges;
  /** Of the connection to netplug-typha; undefined where it is not used. */
  readonly fanOut?: FanOutGauges;
  /** Counts of what policies denied, logged or would have done since the network process started. */
  readonly flows: FlowStanding;
}

/** The sidecars of the pods of the node. */
export interface SidecarGauges {
  readonly states: Readonly<Record<GuardState, number>>;
  /** Pods with rules about requests that open nothing. */
  readonly closed: number;
}

/** The connection of the node to a server of netplug-typha. */
export interface FanOutGauges {
  readonly isConnected: boolean;
  readonly heardSecondsAgo: number;
  readonly moves: number;
  /** Records that differed after moves. */
  readonly differed: number;
}

/** Further policies are counted together as `other`, so that the number of series is bounded. */
const COUNTED_POLICIES = 500;

/** Sets the metrics of the network. A restarted network process counts from 0, as counters may. */
export function setNetwork(metrics: Registered<typeof AGENT_METRICS>, standing: NetworkStanding | undefined): void {
  if (standing === undefined) return;
  for (const [hop, count] of Object.entries(standing.routes)) metrics.netplug_routes.set({ hop }, count);
  metrics.netplug_tunnel_peers.set(standing.peers);
  metrics.netplug_policies_closed.set(standing.closedPolicies);
  metrics.netplug_policy_lag_seconds.set(standing.policyLagSeconds);
  metrics.netplug_route_changes_total.reset();
  metrics.netplug_route_changes_total.inc(standing.changes);
  metrics.netplug_route_comparisons_total.reset();
  metrics.netplug_route_comparisons_total.inc(standing.comparisons);
  metrics.netplug_pod_links_restored_total.reset();
  metrics.netplug_pod_links_restored_total.inc(standing.restoredLinks);
  if (standing.fanOut !== undefined) setFanOut(metrics, standing.fanOut);
  for (const [state, count] of Object.entries(standing.sidecars.states)) metrics.netplug_sidecars.set({ state }, count);
  metrics.netplug_sidecars_closed.set(standing.sidecars.closed);
  const { packets, lostReports, requests } = standing.flows;
  metrics.netplug_requests_total.reset();
  for (const [index, { verdict, policy, count }] of requests.entries())
    metrics.netplug_requests_total.inc({ verdict, policy: index < COUNTED_POLICIES ? policy : 'other' }, count);
  metrics.netplug_policy_packets_total.reset();
  for (const [index, { verdict, policy, direction, packets: count }] of packets.entries()) {
    const labels = { verdict, policy: index < COUNTED_POLICIES ? policy : 'other', direction };
    metrics.netplug_policy_packets_total.inc(labels, count);
  }
  metrics.netplug_policy_reports_lost_total.reset();
  metrics.netplug_policy_reports_lost_total.inc(lostReports);
}

function setFanOut(
  metrics: Registered<typeof AGENT_METRICS>,
  { isConnected, heardSecondsAgo, moves, differed }: FanOutGauges,
): void {
  metrics.netplug_typha_connected.set(isConnected ? 1 : 0);
  metrics.netplug_typha_heard_seconds.set(heardSecondsAgo);
  metrics.netplug_typha_moves_total.reset();
  metrics.netplug_typha_moves_total.inc(moves);
  metrics.netplug_typha_moved_records_total.reset();
  metrics.netplug_typha_moved_records_total.inc(differed);
}
