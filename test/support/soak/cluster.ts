// Two nodes with their agents on one datastore, and everything that may befall them.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Agent, launchAgent } from '../agent.ts';
import { newLan } from '../lan.ts';
import { type Json, startNode, type TestNode } from '../node.ts';
import type { SoakDatastore, SoakPools, StartDatastore } from './datastore.ts';

const NODES = ['node-a', 'node-b'] as const;
/** The longest that a call may work; then it takes back what it began. */
export const CALL_SECONDS = 8;

/** A node, and what its runtime has to know. */
export interface SoakNode {
  readonly node: TestNode;
  readonly conf: Readonly<Record<string, Json>>;
  readonly env: Readonly<Record<'call' | 'agent' | 'tool', Readonly<Record<string, string>>>>;
  agent: Agent | undefined;
  /** When whatever was done to it was over; undefined while it goes on. */
  calmSinceMs: number | undefined;
}

export interface SoakCluster extends AsyncDisposable {
  readonly nodes: readonly SoakNode[];
  readonly datastore: SoakDatastore;
  /** Starts an agent beside whatever is there. */
  launch(of: SoakNode): Promise<Agent>;
  /** What all agents have said, the last part of it. */
  logs(): string;
}

export async function startSoakCluster(startDatastore: StartDatastore, pools: SoakPools): Promise<SoakCluster> {
  await using scope = new AsyncDisposableStack();
  const lan = scope.use(await newLan());
  const machines: TestNode[] = [];
  for (const [index, name] of NODES.entries()) {
    const etcd = index === 0 ? 'every-address' : 'nowhere';
    const node = scope.use(await startNode({ name, etcd, mode: 'standalone' }));
    await lan.plugIn(node.host, index + 2);
    machines.push(node);
  }
  const datastore = scope.use(await startDatastore(machines, pools));
  const nodes = machines.map((node, index): SoakNode => {
    const { conf, env } = datastore.access[index]!;
    const own = { NETPLUG_SOCKET: `${node.dir}/agent/cni.sock`, NETPLUG_CALL_TIMEOUT: String(CALL_SECONDS) };
    return {
      node,
      conf: node.netconf({ ...conf, ipam: { type: 'netplug-ipam', assign_ipv6: 'true' } }),
      env: { ...env, call: { ...env.call, ...own } },
      agent: undefined,
      calmSinceMs: undefined,
    };
  });
  const agents: { readonly name: string; readonly agent: Agent }[] = [];
  const cluster: Omit<SoakCluster, typeof Symbol.asyncDispose> = {
    nodes,
    datastore,
    launch: async ({ node, env }) => {
      const agent = await launchAgent(node, { env: env.agent });
      agents.push({ name: node.name, agent });
      return agent;
    },
    logs: () =>
      agents
        .slice(-6)
        .map(({ name, agent }) => `--- agent ${String(agent.pid)} of ${name}\n${agent.log().slice(-6000)}`)
        .join('\n'),
  };
  for (const each of nodes) {
    each.agent = await cluster.launch(each);
    await each.agent.ready();
  }
  for (const each of nodes) each.calmSinceMs = Date.now();
  const kept = scope.move();
  return { ...cluster, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** Waits until the datastore and one agent on each node serve. A node is calm only then: it may need an address of another. */
export async function settle(cluster: SoakCluster): Promise<void> {
  await cluster.datastore.settled();
  for (const of of cluster.nodes) {
    of.agent ??= await cluster.launch(of);
    await of.agent.ready();
  }
  for (const of of cluster.nodes) of.calmSinceMs = Date.now();
  await sleep(0);
}
