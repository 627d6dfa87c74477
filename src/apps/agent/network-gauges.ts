import { Gauge, type Registry } from '@prometheus-io/client';

/** The network between nodes at the moment of a scrape. */
export interface NetworkStanding {
  /** Routes there shall be, by how their packets leave. */
  readonly routes: Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;
  readonly peers: number;
  /** Changes of routes and peers asked of the kernel since the start. */
  readonly changes: number;
  /** How often all of them were compared with the kernel's. */
  readonly comparisons: number;
  readonly problems: number;
}

/** Registers the gauges; what is returned sets them. While the network process does not answer, that is the problem. */
export function networkGauges(registers: Registry[]): (standing: NetworkStanding | 'down' | undefined) => void {
  const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers });
  const routes = new Gauge({
    name: 'netplug_routes',
    help: 'Routes the agent keeps, by how packets leave: blackhole, direct or tunnelled.',
    labelNames: ['hop'],
    registers,
  });
  const peers = gauge('netplug_tunnel_peers', 'Other ends of the VXLAN devices of the node.');
  const changes = gauge('netplug_route_changes', 'Changes of routes and peers asked of the kernel since the start.');
  const comparisons = gauge('netplug_route_comparisons', 'How often all routes were compared with the kernel.');
  const problems = gauge(
    'netplug_network_problems',
    'Parts of the network of the node that do not work as they shall.',
  );
  return (standing) => {
    if (standing === undefined) return;
    problems.set(standing === 'down' ? 1 : standing.problems);
    if (standing === 'down') return;
    for (const [hop, count] of Object.entries(standing.routes)) routes.set({ hop }, count);
    peers.set(standing.peers);
    changes.set(standing.changes);
    comparisons.set(standing.comparisons);
  };
}
