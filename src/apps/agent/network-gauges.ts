import { Counter, Gauge, type Registry } from '@prometheus-io/client';
import type { FlowStanding } from './network/flow-observer.ts';

/** The state of the node's network at the moment of a scrape. */
export interface NetworkStanding {
  /** Desired routes, by the way in which packets leave. */
  readonly routes: Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;
  readonly peers: number;
  /** Changes of routes and peers sent to the kernel since the start. */
  readonly changes: number;
  /** Full comparisons with the kernel since the start. */
  readonly comparisons: number;
  readonly problems: number;
  /** What policies denied, logged or would have done since the network process started. */
  readonly flows: FlowStanding;
}

/** Further policies are counted together as `other`, so that the number of series is bounded. */
const COUNTED_POLICIES = 500;

/** Registers the gauges. Returns the function that sets them, which counts a network process that is down as one problem. */
export function networkGauges(registers: Registry[]): (standing: NetworkStanding | 'down' | undefined) => void {
  const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers });
  const routes = new Gauge({
    name: 'netplug_routes',
    help: 'Desired routes, by how packets leave: blackhole, direct or tunnelled.',
    labelNames: ['hop'],
    registers,
  });
  const peers = gauge('netplug_tunnel_peers', 'Remote endpoints of the VXLAN devices of the node.');
  const changes = gauge('netplug_route_changes', 'Changes of routes and peers sent to the kernel since the start.');
  const comparisons = gauge('netplug_route_comparisons', 'Full comparisons of routes with the kernel since the start.');
  const problems = gauge('netplug_network_problems', 'Node networking components that are failing.');
  const packets = new Counter({
    name: 'netplug_policy_packets_total',
    help: 'Packets of new connections that policies denied or logged, or that staged policies matched, by verdict, policy and direction.',
    labelNames: ['verdict', 'policy', 'direction'],
    registers,
  });
  const lost = new Counter({
    name: 'netplug_policy_reports_lost_total',
    help: 'Reports of denied or logged packets that the agent did not receive.',
    registers,
  });
  const setFlows = ({ packets: counted, lostReports }: FlowStanding): void => {
    // A restarted network process counts from 0, as counters may.
    packets.reset();
    for (const [index, { verdict, policy, direction, packets: count }] of counted.entries())
      packets.inc({ verdict, policy: index < COUNTED_POLICIES ? policy : 'other', direction }, count);
    lost.reset();
    lost.inc(lostReports);
  };
  return (standing) => {
    if (standing === undefined) return;
    problems.set(standing === 'down' ? 1 : standing.problems);
    if (standing === 'down') return;
    for (const [hop, count] of Object.entries(standing.routes)) routes.set({ hop }, count);
    setFlows(standing.flows);
    peers.set(standing.peers);
    changes.set(standing.changes);
    comparisons.set(standing.comparisons);
  };
}
