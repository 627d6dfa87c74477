// One node with an agent that routes to many others.
import { join } from 'node:path';
import { formatAddress } from '../../src/net/address.ts';
import { addressAt } from '../../src/net/cidr.ts';
import { type Agent, type AgentOptions, launchAgent } from '../../test/support/agent.ts';
import { poolOf } from '../../test/support/fixtures.ts';
import { startNode, type TestNode } from '../../test/support/node.ts';
import { until } from '../../test/support/until.ts';
import { type RemoteNodes, openRemoteNodes, UNDERLAY } from './remote-nodes.ts';
import { ETCD, inside, openStoreOn } from './inside.ts';
import { isNetworkUp, PROTOCOL, TUNNEL } from './route-work.ts';

export interface RoutingNode extends AsyncDisposable {
  readonly node: TestNode;
  readonly remote: RemoteNodes;
  /** Starts the agent and does not wait. */
  launchAgent(options?: Pick<AgentOptions, 'command'>): Promise<Agent>;
  /** Starts the agent and waits until the network works; says how long that took. */
  startAgent(): Promise<{ readonly agent: Agent; readonly ms: number }>;
  /** Takes from the kernel what the agent has put there, as a reboot does. */
  reset(): Promise<void>;
}

/** Of this node in the subnet of all. */
const NUMBER = 1;
/** Gives the tunnel its address. */
const OWN_POOL = poolOf('own', '10.48.0.0/16', { vxlanMode: 'Always' });
const DEADLINE_MS = 120_000;

/** Its uplink leads nowhere: nothing is sent. */
export async function openRoutingNode(): Promise<RoutingNode> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ mode: 'standalone' }));
  const address = `${formatAddress(addressAt(UNDERLAY, NUMBER))}/${String(UNDERLAY.prefixBits)}`;
  await node.host.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth', 'peer', 'name', 'nowhere');
  await node.host.exec('ip', 'address', 'add', address, 'dev', 'eth0');
  for (const link of ['eth0', 'nowhere']) await node.host.exec('ip', 'link', 'set', 'dev', link, 'up');
  const remote = await inside(node, async () => {
    const store = scope.use(openStoreOn(ETCD));
    await store.createResource(OWN_POOL, AbortSignal.timeout(DEADLINE_MS));
    return openRemoteNodes(store);
  });
  const env = {
    NETPLUG_STATE_DIR: join(node.dir, 'agent/state'),
    NETPLUG_RUN_DIR: join(node.dir, 'agent/run'),
  };
  const launch: RoutingNode['launchAgent'] = async (options) => launchAgent(node, { ...options, env });
  const kept = scope.move();
  return {
    node,
    remote,
    launchAgent: launch,
    startAgent: async () => {
      const startMs = performance.now();
      const agent = await launch();
      await untilWorking(agent);
      const ms = performance.now() - startMs;
      return { agent, ms };
    },
    reset: async () => {
      await node.host.exec('ip', 'link', 'delete', 'dev', TUNNEL);
      await node.host.exec('ip', 'route', 'flush', 'proto', PROTOCOL);
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** Waits until everything is as the agent wants it. */
export async function untilWorking(agent: Agent): Promise<void> {
  await until(
    async () => isNetworkUp(agent),
    () => `the network works; the agent says:\n${agent.log()}`,
    DEADLINE_MS,
  );
}
