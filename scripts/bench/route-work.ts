// Routes and peers, as the agent counts them and as the kernel has them.
import type { Agent } from '../../test/support/agent.ts';
import type { TestNode } from '../../test/support/node.ts';
import { NODE_SEVERITIES } from '../../src/model/node-report.ts';
import type { RemoteNodes } from './remote-nodes.ts';

/** What the agent says of its work since it started. */
export interface RouteWork {
  readonly routes: number;
  readonly peers: number;
  readonly changes: number;
  readonly comparisons: number;
}

/** The actual or desired state of the kernel. */
export interface KernelTables {
  readonly routes: number;
  readonly peers: number;
}

export const TUNNEL = 'vxlan.netplug';
/** By which the agent knows its routes. */
export const PROTOCOL = '118';
/** To the block out of which the tunnel has its address. */
const OWN_ROUTES = 1;

/** Whether everything is as the agent wants it; false while it does not answer. */
export async function isNetworkUp(agent: Agent): Promise<boolean> {
  const { body } = await agent.ask('/metrics');
  return NODE_SEVERITIES.every((severity) => gauge(body, `netplug_node_problems{severity="${severity}"}`) === 0);
}

export async function routeWorkOf(agent: Agent): Promise<RouteWork> {
  const { body } = await agent.ask('/metrics');
  const hops = ['blackhole', 'direct', 'tunnelled'];
  return {
    routes: hops.reduce((sum, hop) => sum + gauge(body, `netplug_routes{hop="${hop}"}`), 0),
    peers: gauge(body, 'netplug_tunnel_peers'),
    changes: gauge(body, 'netplug_route_changes_total'),
    comparisons: gauge(body, 'netplug_route_comparisons_total'),
  };
}

/** The kernel's answer, of which the agent has no part. Half a peer is none. */
export async function kernelTablesOf(node: TestNode): Promise<KernelTables> {
  const lines = async (...command: [string, ...string[]]): Promise<number> =>
    (await node.exec(...command)).split('\n').filter((line) => line !== '').length;
  const routes = await lines('ip', '-oneline', 'route', 'show', 'proto', PROTOCOL);
  const neighbours = await lines('ip', '-oneline', 'neighbour', 'show', 'dev', TUNNEL, 'nud', 'permanent');
  const forwarding = await lines('bridge', 'fdb', 'show', 'dev', TUNNEL);
  return { routes, peers: Math.min(neighbours, forwarding) };
}

/** Returns the desired state of a node in a cluster with the simulated nodes. */
export function expectedTables({ size, blocks }: Pick<RemoteNodes, 'size' | 'blocks'>): KernelTables {
  return { routes: blocks + OWN_ROUTES, peers: size };
}

/** NaN when it is not there. */
function gauge(metrics: string, name: string): number {
  const line = metrics.split('\n').find((each) => each.startsWith(`${name} `));
  return line === undefined ? Number.NaN : Number(line.slice(name.length + 1));
}
