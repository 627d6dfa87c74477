// A node with pods in namespaces, on which policies are enforced and packets are sent.
import { type Socket as UdpSocket, createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type Server, createServer, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import type { FilterChange } from '../../src/dataplane/policy-filter.ts';
import type { LinkWithAddresses } from '../../src/policy/host-interfaces.ts';
import type { OpenPorts } from '../../src/policy/open-ports.ts';
import type { PolicyRuleset } from '../../src/policy/ruleset/policy-ruleset.ts';
import { RulesetCompiler } from '../../src/policy/ruleset/ruleset-compiler.ts';
import type { TouchedPolicy } from '../../src/policy/policy-view.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { type TestNetns, enterNetns, newNetns } from './netns.ts';
import { NODE, type PolicyCluster, type TestPod } from './policy-cluster.ts';

export const PORTS = [80, 81] as const;
export const HOST_ADDRESSES = ['192.0.2.1', '2001:db8::1'] as const;
/** A denied connection is one that was not answered for so long. */
const SILENCE_MS = 350;
const DEADLINE_MS = 30_000;
/** Source ports of probes over UDP. None is used twice: to connection tracking it would be the flow that was allowed before. */
let nextUdpPort = 10_000;

export interface Probe {
  readonly from: TestNetns;
  readonly to: string;
  readonly port: number;
  readonly protocol?: 'tcp' | 'udp' | 'icmp';
  /** How long to wait for an answer; `denied` waits only briefly. */
  readonly expected: 'allowed' | 'denied';
}

export class PolicyHost implements AsyncDisposable {
  readonly netns: TestNetns;
  readonly filter: NftPolicyFilter;
  readonly cluster: PolicyCluster;
  readonly pods = new Map<string, TestNetns>();
  ruleset: PolicyRuleset | undefined;
  readonly #scope: AsyncDisposableStack;
  #compiler: RulesetCompiler;
  readonly #interfaces: LinkWithAddresses[] = [];

  private constructor(
    netns: TestNetns,
    { cluster, failsafe }: { readonly cluster: PolicyCluster; readonly failsafe: OpenPorts | undefined },
    scope: AsyncDisposableStack,
  ) {
    this.netns = netns;
    this.cluster = cluster;
    this.#compiler = newCompiler(failsafe);
    this.#scope = scope;
    this.filter = scope.use(insideSync(netns, () => this.newFilter()));
  }

  static async start(cluster: PolicyCluster, failsafe?: OpenPorts): Promise<PolicyHost> {
    const scope = new AsyncDisposableStack();
    const netns = scope.use(await newNetns());
    const host = new PolicyHost(netns, { cluster, failsafe }, scope);
    for (const address of HOST_ADDRESSES) await netns.addAddress(address, 'lo');
    await netns.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
    scope.adopt(await serve(netns), closeAll);
    return host;
  }

  /** Makes a pod with servers, and the record of it. */
  async addPod(pod: TestPod): Promise<TouchedPolicy> {
    const netns = this.#scope.use(await newNetns());
    const { interfaceName: hostLinkName = '' } = pod;
    const network = networkOf(netns.path, { hostLinkName, addresses: pod.addresses, containerId: hostLinkName });
    const inside = enterNetns(this.netns);
    try {
      await linuxKernel().apply(network, new AbortController().signal);
    } finally {
      inside.leave();
    }
    this.#scope.adopt(await serve(netns), closeAll);
    this.pods.set(`${pod.namespace}/${pod.name}`, netns);
    return this.cluster.putPod(pod);
  }

  /** Connects another host, with servers, which reaches pods through this one. Addresses have their prefix lengths. */
  async addNeighbour(
    interfaceName: string,
    ends: { readonly own: string[]; readonly its: string[] },
  ): Promise<TestNetns> {
    const netns = this.#scope.use(await newNetns());
    const pair = ['name', interfaceName, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns.name] as const;
    await this.netns.exec('ip', 'link', 'add', ...pair);
    for (const [on, device, addresses] of [
      [this.netns, interfaceName, ends.own],
      [netns, 'eth0', ends.its],
    ] as const) {
      for (const address of addresses) await on.addAddress(address, device);
      await on.exec('ip', 'link', 'set', 'dev', device, 'up');
    }
    for (const address of ends.own)
      await netns.exec('ip', 'route', 'add', 'default', 'via', address.replace(/\/.*/, ''));
    this.#scope.adopt(await serve(netns), closeAll);
    this.#interfaces.push({ name: interfaceName, addresses: ends.own.map((text) => text.replace(/\/.*/, '')) });
    this.#compiler.useHost({ interfaces: this.#interfaces, tunnels: [], servers: [] });
    return netns;
  }

  /** Sets what happens to packets of pods to the node that their policies allow. */
  setToHost(action: 'Accept' | 'Drop'): void {
    this.#compiler = newCompiler(undefined, action);
  }

  pod(name: string): TestNetns {
    const netns = this.pods.get(name);
    if (netns === undefined) throw new Error(`there is no pod ${name}`);
    return netns;
  }

  /** Enforces the policies of the cluster; with `touched` by the difference only. */
  async enforce(touched?: TouchedPolicy): Promise<FilterChange> {
    this.ruleset = this.#compiler.compile(this.cluster.state, touched);
    return this.filter.apply(this.ruleset.table, { signal: new AbortController().signal });
  }

  /** Opens a filter for the namespace of the calling thread. */
  newFilter(): NftPolicyFilter {
    return NftPolicyFilter.open();
  }

  /** Compiles the cluster without what earlier compilations kept. */
  freshRuleset(): PolicyRuleset {
    return newCompiler().compile(this.cluster.state);
  }

  /** Compares the kernel with what was enforced last. */
  async repair(): Promise<FilterChange> {
    const { table } = this.ruleset ?? this.freshRuleset();
    return this.filter.apply(table, { signal: new AbortController().signal, reread: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.disposeAsync();
  }
}

function newCompiler(failsafe?: OpenPorts, endpointToHostAction: 'Accept' | 'Drop' = 'Accept'): RulesetCompiler {
  return new RulesetCompiler({
    node: NODE,
    logPrefix: 'netplug-packet',
    endpointToHostAction,
    ...(failsafe === undefined ? {} : { failsafe }),
  });
}

/** Sends all probes at once. Returns which were answered. */
export async function probeAll(probes: readonly Probe[]): Promise<readonly boolean[]> {
  const answers = new Map<Probe, Promise<boolean>>();
  for (const from of new Set(probes.map((probe) => probe.from))) {
    const inside = enterNetns(from);
    try {
      for (const probe of probes.filter((one) => one.from === from)) answers.set(probe, ask(probe));
      // Sockets are made in the next tick.
      await sleep(0);
    } finally {
      inside.leave();
    }
  }
  return Promise.all(probes.map(async (probe) => answers.get(probe) ?? false));
}

async function ask(probe: Probe): Promise<boolean> {
  const signal = AbortSignal.timeout(probe.expected === 'allowed' ? DEADLINE_MS : SILENCE_MS);
  if (probe.protocol === 'icmp') return askEcho(probe);
  return probe.protocol === 'udp' ? askUdp(probe, signal) : askTcp(probe, signal);
}

async function askEcho({ from, to, expected }: Probe): Promise<boolean> {
  const seconds = (expected === 'allowed' ? DEADLINE_MS : SILENCE_MS) / 1000;
  return from.exec('ping', '-n', '-c', '1', '-W', String(seconds), to).then(
    () => true,
    () => false,
  );
}

async function askTcp({ to, port }: Probe, signal: AbortSignal): Promise<boolean> {
  const socket = connect({ host: to, port });
  try {
    await once(socket, 'connect', { signal });
    return true;
  } catch (cause) {
    if (!signal.aborted) throw cause;
    return false;
  } finally {
    socket.destroy();
  }
}

async function askUdp({ to, port }: Probe, signal: AbortSignal): Promise<boolean> {
  const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
  try {
    socket.bind(nextUdpPort++);
    await once(socket, 'listening', { signal });
    socket.send('hello', port, to);
    await once(socket, 'message', { signal });
    return true;
  } catch (cause) {
    if (!signal.aborted) throw cause;
    return false;
  } finally {
    socket.close();
  }
}

type Servers = readonly (Server | UdpSocket)[];

/** Answers on every port of the namespace, over TCP and UDP. */
async function serve(netns: TestNetns): Promise<Servers> {
  const inside = enterNetns(netns);
  try {
    const servers = PORTS.flatMap((port) => [tcpServer(port), udpServer(port)]);
    await Promise.all(servers.map(async (server) => once(server, 'listening')));
    return servers;
  } finally {
    inside.leave();
  }
}

function tcpServer(port: number): Server {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.resume();
    socket.on('end', () => socket.end());
  });
  return server.listen(port, '::');
}

function udpServer(port: number): UdpSocket {
  const server = createSocket({ type: 'udp6', ipv6Only: false });
  server.on('message', (message, { port: back, address }) => {
    server.send(message, back, address);
  });
  server.bind(port, '::');
  return server;
}

async function closeAll(servers: Servers): Promise<void> {
  for (const server of servers) server.close();
}

export function insideSync<T>(netns: TestNetns, action: () => T): T {
  const inside = enterNetns(netns);
  try {
    return action();
  } finally {
    inside.leave();
  }
}
