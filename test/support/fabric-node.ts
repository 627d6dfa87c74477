// A node of a fabric: its agent, its pods, and what the kernel says of its side of the network.
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Agent, type AgentOptions, launchAgent, startAgent } from './agent.ts';
import type { Segment, Segments } from './fabric-segments.ts';
import type { LanAddresses } from './lan.ts';
import type { TestNetns } from './netns.ts';
import { type Json, startNode, type TestNode } from './node.ts';
import { NETPLUGCTL } from './built.ts';

/** Something with addresses that packets can be sent from and to. */
export interface Peer {
  readonly name: string;
  readonly netns: TestNetns;
  readonly addresses: LanAddresses;
}

export interface FabricPod extends Peer {
  readonly node: string;
  /** Calls DEL. */
  remove(): Promise<void>;
}

export interface FabricNode extends Peer, AsyncDisposable {
  readonly machine: TestNode;
  /** Datastore of the fabric. */
  readonly etcdUrl: string;
  /** Environment of calls of the plugin. */
  readonly places: Readonly<Record<string, string>>;
  /** Starts it, and waits until it is ready; `env` adds to its environment. */
  startAgent(env?: Readonly<Record<string, string>>): Promise<Agent>;
  /** Starts it and does not wait. */
  launchAgent(env?: Readonly<Record<string, string>>): Promise<Agent>;
  /** The one started last. */
  agent(): Agent;
  /** Makes a pod with an address of either family; `ipam` adds to the network configuration's. */
  pod(ipam?: object): Promise<FabricPod>;
  /** What `netplugctl node status` prints there. */
  nodeStatus(): Promise<string>;
  /** Routes of the agent, of both families. */
  routes(): Promise<readonly Json[]>;
  /** The name of the link by which it would send to the address. */
  wayTo(address: string): Promise<string>;
}

export interface FabricNodeOptions {
  readonly name: string;
  readonly segments: Segments;
  readonly segment: Segment;
  /** Of the host in its segment. */
  readonly number: number;
  readonly etcdUrl: string;
  /** NETPLUG_STATE_DIR; outlives the node. */
  readonly stateDir: string;
}

/** By which the agent knows its routes. */
const PROTOCOL = '118';

/** Takes it from power off to power on: nothing but its state folder is from before. */
export async function startFabricNode(options: FabricNodeOptions): Promise<FabricNode> {
  const { name, segments, segment, number, etcdUrl, stateDir } = options;
  await using scope = new AsyncDisposableStack();
  const machine = scope.use(await startNode({ name, etcd: 'nowhere', mode: 'standalone' }));
  const { addresses } = scope.use(await segments.plugIn(machine.host, segment, number));
  await mkdir(stateDir, { recursive: true });
  const places = { NETPLUG_SOCKET: machine.socket, NETPLUG_STATE_DIR: stateDir };
  const agentOptions = (env: Readonly<Record<string, string>>): AgentOptions => ({
    socket: machine.socket,
    env: {
      ...places,
      KV_ENDPOINTS: etcdUrl,
      NETPLUG_RUN_DIR: join(machine.dir, 'run'),
      ...env,
    },
  });
  let agent: Agent | undefined;
  const kept = scope.move();
  return {
    name,
    netns: machine.host,
    addresses,
    machine,
    etcdUrl,
    places,
    startAgent: async (env = {}) => (agent = await startAgent(machine, agentOptions(env))),
    launchAgent: async (env = {}) => (agent = await launchAgent(machine, agentOptions(env))),
    agent: () => {
      if (agent === undefined) throw new Error(`${name} has no agent`);
      return agent;
    },
    pod: async (ipam = {}) => {
      const netns = await machine.pod();
      const both = { type: 'netplug-ipam', assign_ipv4: 'true', assign_ipv6: 'true', ...ipam };
      const conf = machine.netconf({ kv_endpoints: etcdUrl, ipam: both });
      const call = { containerId: `${name}-${randomBytes(4).toString('hex')}`, netns: netns.path, conf, env: places };
      const { status, json, stderr } = await machine.cni('ADD', call);
      if (status !== 0) throw new Error(`ADD on ${name} failed: ${JSON.stringify(json)}\n${stderr}`);
      return {
        name: `pod ${call.containerId}`,
        node: name,
        netns,
        addresses: addressesIn(json),
        remove: async () => {
          const answer = await machine.cni('DEL', call);
          if (answer.status !== 0) throw new Error(`DEL on ${name} failed: ${JSON.stringify(answer.json)}`);
        },
      };
    },
    nodeStatus: async () => machine.exec(NETPLUGCTL, 'node', 'status', '--socket', machine.socket),
    routes: async () => {
      const families = ['-4', '-6'].map(async (family) => machine.host.ip(family, 'route', 'show', 'proto', PROTOCOL));
      return (await Promise.all(families)).flat();
    },
    wayTo: async (address) => String((await machine.host.ip('route', 'get', address))[0]?.['dev']),
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** Empty text for a family the pod has no address of. */
function addressesIn({ ips }: Json): LanAddresses {
  const all: readonly string[] = ips.map((ip: Json) => String(ip.address).split('/', 1)[0]);
  return {
    ipv4: all.find((address) => !address.includes(':')) ?? '',
    ipv6: all.find((address) => address.includes(':')) ?? '',
  };
}
