// One node with an agent that routes to a crowd of others.
import { join } from 'node:path';
import { formatAddress } from '../../src/net/address.ts';
import { addressAt } from '../../src/net/cidr.ts';
import { type Agent, launchAgent } from '../../test/support/agent.ts';
import { poolOf } from '../../test/support/fixtures.ts';
import { startNode, type TestNode } from '../../test/support/node.ts';
import { until } from '../../test/support/until.ts';
import { BLOCKS_PER_NODE, type Crowd, openCrowd, UNDERLAY } from './crowd.ts';
import { ETCD, inside, openStoreOn } from './inside.ts';

export interface CrowdedNode extends AsyncDisposable {
  readonly node: TestNode;
  readonly crowd: Crowd;
  /** Starts the agent and waits until the network works; says how long that took. */
  startAgent(): Promise<{ readonly agent: Agent; readonly ms: number }>;
  /** Takes from the kernel what the agent has put there, as a reboot does. */
  forget(): Promise<void>;
}

/** What the agent says of its work since it started. */
export interface RouteWork {
  readonly routes: number;
  readonly peers: number;
  readonly changes: number;
  readonly comparisons: number;
}

/** Routes and peers of the agent. */
export interface KernelTables {
  readonly routes: number;
  readonly peers: number;
}

const TUNNEL = 'vxlan.netplug';
/** By which the agent knows its routes. */
const PROTOCOL = '118';
const FIRST_ON_ITS_OWN = 1;
/** The agent's own block, out of which the tunnel has its address. */
const OWN_ROUTES = 1;
const DEADLINE_MS = 120_000;

/** Its uplink leads nowhere: nothing is sent. */
export async function openCrowdedNode(): Promise<CrowdedNode> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ mode: 'standalone' }));
  const address = `${formatAddress(addressAt(UNDERLAY, FIRST_ON_ITS_OWN))}/${String(UNDERLAY.prefixBits)}`;
  await node.host.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth', 'peer', 'name', 'nowhere');
  await node.host.exec('ip', 'address', 'add', address, 'dev', 'eth0');
  for (const link of ['eth0', 'nowhere']) await node.host.exec('ip', 'link', 'set', 'dev', link, 'up');
  const { store, crowd } = await inside(node, async () => {
    const opened = scope.use(openStoreOn(ETCD));
    await opened.createResource(poolOf('own', '10.48.0.0/16', { vxlanMode: 'Always' }), AbortSignal.timeout(5000));
    return { store: opened, crowd: await openCrowd(opened) };
  });
  void store;
  const env = {
    NETPLUG_NETWORKING: 'on',
    NETPLUG_STATE_DIR: join(node.dir, 'agent/state'),
    NETPLUG_RUN_DIR: join(node.dir, 'agent/run'),
  };
  const kept = scope.move();
  return {
    node,
    crowd,
    startAgent: async () => {
      const startMs = performance.now();
      const agent = await launchAgent(node, { env });
      await untilWorking(agent);
      const ms = performance.now() - startMs;
      return { agent, ms };
    },
    forget: async () => {
      await node.host.exec('ip', 'link', 'delete', 'dev', TUNNEL);
      await node.host.exec('ip', 'route', 'flush', 'proto', PROTOCOL);
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function untilWorking(agent: Agent): Promise<void> {
  await until(
    async () => gauge((await agent.ask('/metrics')).body, 'netplug_network_problems') === 0,
    () => `the network works; the agent says:\n${agent.log()}`,
    DEADLINE_MS,
  );
}

export async function routeWorkOf(agent: Agent): Promise<RouteWork> {
  const { body } = await agent.ask('/metrics');
  const hops = ['blackhole', 'direct', 'tunnelled'];
  return {
    routes: hops.reduce((sum, hop) => sum + gauge(body, `netplug_routes{hop="${hop}"}`), 0),
    peers: gauge(body, 'netplug_tunnel_peers'),
    changes: gauge(body, 'netplug_route_changes'),
    comparisons: gauge(body, 'netplug_route_comparisons'),
  };
}

/** The kernel's answer, of which the agent has no part. */
export async function kernelTablesOf(node: TestNode): Promise<KernelTables> {
  const lines = async (...command: [string, ...string[]]): Promise<number> =>
    (await node.exec(...command)).split('\n').filter((line) => line !== '').length;
  const routes = await lines('ip', '-oneline', 'route', 'show', 'proto', PROTOCOL);
  const neighbours = await lines('ip', '-oneline', 'neighbour', 'show', 'dev', TUNNEL, 'nud', 'permanent');
  const forwarding = await lines('bridge', 'fdb', 'show', 'dev', TUNNEL);
  if (neighbours !== forwarding) throw new Error(`${String(neighbours)} neighbours, but ${String(forwarding)} entries`);
  return { routes, peers: neighbours };
}

/** What shall be in the kernel, with blocks of the crowd that came one by one. */
export function expectedTables({ size }: Pick<Crowd, 'size'>, singles = 0): KernelTables {
  return { routes: size * BLOCKS_PER_NODE + singles + OWN_ROUTES, peers: size };
}

/** NaN when it is not there. */
function gauge(metrics: string, name: string): number {
  const line = metrics.split('\n').find((each) => each.startsWith(`${name} `));
  return line === undefined ? Number.NaN : Number(line.slice(name.length + 1));
}
