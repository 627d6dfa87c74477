// A node whose agent enforces policies, on etcd, where policies are records.
import { type Agent, launchAgent, startAgent } from './agent.ts';
import type { TestNetns } from './netns.ts';
import { type CniCall, startNode, type TestNode } from './node.ts';
import { askFrom } from './tcp-echo.ts';
import { pingOnce } from './traffic.ts';
import { until } from './until.ts';
import { NETPLUGCTL } from './built.ts';

/** Without an orchestrator, the profile of a pod is named like its network. */
export const NETWORK = 'net';
const ETCD = { KV_ENDPOINTS: 'http://127.0.0.1:2379' };

export interface PolicedPod {
  /** Namespace and name, with a slash between. */
  readonly name: string;
  readonly netns: TestNetns;
  readonly address: string;
}

export interface PolicedNode extends AsyncDisposable {
  readonly node: TestNode;
  /** The agent that runs now. */
  agent(): Agent;
  /** Ends the agent with the signal; the network process ends as well. */
  stopAgent(signal: 'TERM' | 'KILL'): Promise<void>;
  startAgent(env?: Readonly<Record<string, string>>): Promise<void>;
  /** Starts an agent that serves calls, while its network process waits for the lock of another one during `work`. */
  startHeldAgent(work: () => Promise<void>): Promise<void>;
  /** Calls netplugctl on the node, whose etcd has the records. */
  ctl(...words: readonly string[]): Promise<string>;
  apply(resource: object): Promise<void>;
  remove(kind: string, name: string): Promise<void>;
  add(name: string, more?: Partial<CniCall>): Promise<PolicedPod>;
  del(pod: Pick<PolicedPod, 'name'>): Promise<void>;
}

export async function startPolicedNode(
  env: Readonly<Record<string, string>> = { NETPLUG_POLICY: 'on' },
): Promise<PolicedNode> {
  const node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/24');
  let agent = await startAgent(node, { env });
  const ctl = async (...words: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await node.run([NETPLUGCTL, ...words], { env: ETCD });
    if (status !== 0)
      throw new Error(`netplugctl ${words.join(' ')} ended with ${String(status)}:\n${stdout}${stderr}`);
    return stdout;
  };
  const callOf = (name: string): CniCall => {
    const [namespace = '', pod = ''] = name.split('/');
    return {
      containerId: `c-${namespace}-${pod}`,
      args: `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${pod}`,
      conf: node.netconf({ name: NETWORK }),
      env: { NETPLUG_SOCKET: agent.socket },
    };
  };
  return {
    node,
    agent: () => agent,
    stopAgent: async (signal) => {
      await agent.stop(signal);
      const hasEnded = async (): Promise<boolean> =>
        (await node.run(['pgrep', '--full', '^netplug-network'])).stdout.trim() === '';
      await until(hasEnded, 'the network process has ended');
    },
    startAgent: async (other = env) => {
      agent = await startAgent(node, { env: other });
    },
    startHeldAgent: async (work) => {
      const lock = await node.start(['flock', '--no-fork', '/var/lib/netplug/network.lock', 'sleep', '600']);
      try {
        agent = await launchAgent(node, { env });
        await until(() => agent.log().includes('agent started'), 'the agent serves calls');
        await work();
      } finally {
        await lock.stop('KILL');
      }
    },
    ctl,
    apply: async (resource) => {
      const command = [NETPLUGCTL, 'apply', '-f', '-'];
      const { status, stderr } = await node.run(command, { stdin: JSON.stringify(resource), env: ETCD });
      if (status !== 0) throw new Error(stderr);
    },
    remove: async (kind, name) => void (await ctl('delete', kind, name)),
    add: async (name, more = {}) => {
      const netns = await node.pod();
      const { json, stderr, status } = await node.cni('ADD', { ...callOf(name), netns: netns.path, ...more });
      if (status !== 0) throw new Error(`ADD failed: ${JSON.stringify(json)} ${stderr}`);
      return { name, netns, address: json.ips[0].address.split('/')[0] };
    },
    del: async ({ name }) => {
      const { status, stderr } = await node.cni('DEL', callOf(name));
      if (status !== 0) throw new Error(stderr);
    },
    [Symbol.asyncDispose]: async () => {
      await agent.stop('KILL');
      await node[Symbol.asyncDispose]();
    },
  };
}

export const ALLOW_ALL = {
  apiVersion: 'netplug.io/v3',
  kind: 'Profile',
  metadata: { name: NETWORK },
  spec: { ingress: [{ action: 'Allow' }], egress: [{ action: 'Allow' }] },
};

export function globalPolicy(name: string, spec: object): object {
  return { apiVersion: 'netplug.io/v3', kind: 'GlobalNetworkPolicy', metadata: { name }, spec };
}

export async function isReached(from: PolicedPod, to: PolicedPod): Promise<boolean> {
  return (await pingOnce(from.netns, to.address)) === undefined;
}

/** Reports whether a TCP connection opens. */
export async function isServed(from: PolicedPod, to: PolicedPod): Promise<boolean> {
  return askFrom(from.netns, to.address).then(
    () => true,
    () => false,
  );
}

export async function becomesReachable(from: PolicedPod, to: PolicedPod, isOpen: boolean): Promise<void> {
  const name = `${from.name} ${isOpen ? 'reaches' : 'does not reach'} ${to.name}`;
  await until(async () => (await isReached(from, to)) === isOpen, name);
}
