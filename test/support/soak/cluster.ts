// Two nodes with their agents on one etcd, and everything that may befall them.
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeBlock } from '../../../src/model/ip-block-codec.ts';
import type { IpBlock } from '../../../src/model/ip-block.ts';
import { type Agent, launchAgent } from '../agent.ts';
import { newLan } from '../lan.ts';
import { type Json, startNode, type TestNode } from '../node.ts';

const NODES = ['node-a', 'node-b'] as const;
/** The longest that a call may work; then it takes back what it began. */
export const CALL_SECONDS = 8;

/** A node, and what its runtime has to know. */
export interface SoakNode {
  readonly node: TestNode;
  readonly conf: Readonly<Record<string, Json>>;
  readonly env: Readonly<Record<string, string>>;
  agent: Agent | undefined;
  /** When whatever was done to it was over; undefined while it goes on. */
  calmSinceMs: number | undefined;
}

export interface SoakCluster extends AsyncDisposable {
  readonly nodes: readonly SoakNode[];
  /** Starts an agent beside whatever is there. */
  launch(of: SoakNode): Promise<Agent>;
  pauseEtcd(): Promise<void>;
  resumeEtcd(): Promise<void>;
  killEtcd(): Promise<void>;
  restartEtcd(): Promise<void>;
  blocks(): Promise<readonly IpBlock[]>;
  /** What all agents have said, the last part of it. */
  logs(): string;
}

export async function startSoakCluster(
  pools: Readonly<Record<string, readonly [string, object]>>,
): Promise<SoakCluster> {
  await using scope = new AsyncDisposableStack();
  const lan = scope.use(await newLan());
  const nodes: SoakNode[] = [];
  for (const [index, name] of NODES.entries()) {
    const node = scope.use(
      await startNode({ name, etcd: index === 0 ? 'every-address' : 'nowhere', mode: 'standalone' }),
    );
    await lan.plugIn(node.host, index + 2);
    const endpoint = index === 0 ? 'http://127.0.0.1:2379' : 'http://172.31.0.2:2379';
    const env = {
      KV_ENDPOINTS: endpoint,
      NETPLUG_SOCKET: `${node.dir}/agent/cni.sock`,
      NETPLUG_CALL_TIMEOUT: String(CALL_SECONDS),
    };
    const conf = node.netconf({ kv_endpoints: endpoint, ipam: { type: 'netplug-ipam', assign_ipv6: 'true' } });
    nodes.push({ node, conf, env, agent: undefined, calmSinceMs: undefined });
  }
  const [{ node: first }] = nodes as [SoakNode, SoakNode];
  for (const [name, [cidr, more]] of Object.entries(pools)) await first.seedPool(name, cidr, more);
  let etcd = first.etcd!;
  const command = (await first.exec('cat', `/proc/${String(etcd.pid)}/cmdline`)).split('\0').slice(0, -1);
  const agents: { readonly name: string; readonly agent: Agent }[] = [];
  const cluster: Omit<SoakCluster, typeof Symbol.asyncDispose> = {
    nodes,
    launch: async ({ node, env }) => {
      const agent = await launchAgent(node, { env: { KV_ENDPOINTS: env['KV_ENDPOINTS']! } });
      agents.push({ name: node.name, agent });
      return agent;
    },
    pauseEtcd: async () => etcd.pause(),
    resumeEtcd: async () => etcd.resume(),
    killEtcd: async () => etcd.stop('KILL'),
    restartEtcd: async () => {
      etcd = await first.start(command);
    },
    blocks: async () =>
      [...(await first.records('ipam/blocks/')).entries()].map(([key, record]) => {
        const decoded = decodeBlock(record);
        if (!('block' in decoded)) throw new Error(`${key} cannot be read: ${decoded.problems.join('; ')}`);
        return decoded.block;
      }),
    logs: () =>
      agents
        .slice(-6)
        .map(({ name, agent }) => `--- agent ${String(agent.pid)} of ${name}\n${agent.log().slice(-6000)}`)
        .join('\n'),
  };
  for (const each of nodes) {
    each.agent = await cluster.launch(each);
    await each.agent.ready();
    each.calmSinceMs = Date.now();
  }
  const kept = scope.move();
  return { ...cluster, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** Has one agent that serves, whatever was before. */
export async function settle(cluster: SoakCluster, of: SoakNode): Promise<void> {
  of.agent ??= await cluster.launch(of);
  await of.agent.ready();
  of.calmSinceMs = Date.now();
  await sleep(0);
}
