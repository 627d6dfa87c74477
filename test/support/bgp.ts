// Nodes of BGP in namespaces: each with a BIRD of its own, configured as the agent would.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { Bird, type Applied } from '../../src/bgp/bird.ts';
import { bgpPoolCidrs, planAnnouncements } from '../../src/bgp/plan-announcements.ts';
import { planSessions } from '../../src/bgp/plan-sessions.ts';
import { Passwords } from '../../src/bgp/passwords.ts';
import type { SessionStatus } from '../../src/bgp/read-status.ts';
import { renderBird } from '../../src/bgp/render-bird.ts';
import { routerIdOf } from '../../src/bgp/router-id.ts';
import type { BgpResources } from '../../src/bgp/wanted-peers.ts';
import type { BgpConfiguration, BgpConfigurationSpec } from '../../src/model/bgp-configuration.ts';
import type { BgpPeer, BgpPeerSpec } from '../../src/model/bgp-peer.ts';
import type { IpPool } from '../../src/model/ip-pool.ts';
import type { Node } from '../../src/model/node.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { removeAtEnd } from './janitor.ts';
import { addressesOf, type Lan, newLan } from './lan.ts';
import { newNetns, type TestNetns } from './netns.ts';
import { until } from './until.ts';

const apiVersion = 'netplug.io/v3';

export interface BgpWorldOfTest extends BgpResources {
  readonly pools: readonly IpPool[];
  /** What each node holds, by its name. */
  readonly held: Readonly<Record<string, readonly string[]>>;
}

export function bgpNodeOf(number: number, bgp: Partial<Node['spec']['bgp']> = {}, labels = {}): Node {
  const { ipv4, ipv6 } = addressesOf(number);
  const spec = { bgp: { ipv4Address: `${ipv4}/24`, ipv6Address: `${ipv6}/64`, ...bgp } };
  return { apiVersion, kind: 'Node', metadata: { name: nameOf(number), labels }, spec };
}

export function bgpConfigurationOf(spec: BgpConfigurationSpec, name = 'default'): BgpConfiguration {
  return { apiVersion, kind: 'BGPConfiguration', metadata: { name }, spec };
}

export function bgpPeerOf(name: string, spec: Partial<BgpPeerSpec>): BgpPeer {
  const whole = { keepOriginalNextHop: false, sourceAddress: 'UseNodeIP' as const, ...spec };
  return { apiVersion, kind: 'BGPPeer', metadata: { name }, spec: whole };
}

function nameOf(number: number): string {
  return `node-${String(number)}`;
}

const signal = new AbortController().signal;

/** Nodes `node-2`, `node-3` and so on upon one segment. */
export async function newBgpNodes(count: number): Promise<BgpNodes> {
  await using made = new AsyncDisposableStack();
  const lan = made.use(await newLan());
  const nodes: BgpNode[] = [];
  for (let number = 2; number < count + 2; number += 1) nodes.push(made.use(await BgpNode.create(lan, number)));
  const kept = made.move();
  return { lan, nodes, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

interface BgpNodes extends AsyncDisposable {
  readonly lan: Lan;
  readonly nodes: readonly BgpNode[];
}

/** Collects what happens to routes of a namespace. */
export class RouteMonitor implements Disposable {
  readonly #netns: TestNetns;
  readonly #child: ChildProcess;
  #seen = '';
  #marks = 0;

  private constructor(netns: TestNetns) {
    this.#netns = netns;
    const command = [`--net=${netns.path}`, 'ip', 'monitor', 'route'];
    const child = spawn('nsenter', command, { stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (this.#seen += chunk));
    this.#child = child;
  }

  static async start(netns: TestNetns): Promise<RouteMonitor> {
    const monitor = new RouteMonitor(netns);
    await monitor.events();
    return monitor;
  }

  /** All that has happened so far: the kernel tells in order, so once a route made now is seen, everything before it is. */
  async events(): Promise<string> {
    const made: string[] = [];
    await until(async () => {
      const mark = markOf((this.#marks += 1));
      made.push(` ${mark} `);
      await this.#netns.exec('ip', 'route', 'add', 'blackhole', mark);
      return made.some((text) => this.#seen.includes(text));
    }, 'the monitor of routes is at work');
    return this.#seen;
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }
}

function markOf(number: number): string {
  return `198.18.${String(number >> 8)}.${String(number & 255)}`;
}

/** A namespace on a segment and the BIRD inside it. */
export class BgpNode implements AsyncDisposable {
  readonly netns: TestNetns;
  readonly bird: Bird;
  readonly #number: number;
  readonly #folder: string;

  private constructor(number: number, netns: TestNetns, folder: string) {
    this.#number = number;
    this.netns = netns;
    this.#folder = folder;
    const program = ['nsenter', `--net=${netns.path}`, 'bird'] as const;
    this.bird = new Bird({ places: { folder: join(folder, 'bird'), program: [...program] }, clock: systemClock });
  }

  static async create(lan: Lan, number: number): Promise<BgpNode> {
    const netns = await newNetns();
    const folder = await mkdtemp(join(tmpdir(), 'npl-bgp-'));
    removeAtEnd('folder', folder);
    await lan.plugIn(netns, number);
    return new BgpNode(number, netns, folder);
  }

  /** Has BIRD run with what the resources say for this node. */
  async follow(world: BgpWorldOfTest, secrets: Readonly<Record<string, string>> = {}): Promise<Applied> {
    return this.bird.apply(await this.render(world, secrets), signal);
  }

  async render(world: BgpWorldOfTest, secrets: Readonly<Record<string, string>> = {}): Promise<string> {
    const nodeName = nameOf(this.#number);
    const plan = planSessions({ nodeName, ...world });
    const passwords = new Passwords(async (name) => Promise.resolve(secrets[name]));
    await passwords.read(plan.sessions, signal);
    const held = (world.held[nodeName] ?? []).map(parseCidr);
    const { text } = renderBird({
      routerId: routerIdOf(nodeName, parseAddress(addressesOf(this.#number).ipv4)),
      sessions: passwords.addTo(plan.sessions)?.sessions ?? [],
      announcements: planAnnouncements({ ...world, held }).announcements,
      pools: bgpPoolCidrs(world.pools),
      refused: [],
      log: { severity: 'Debug', file: join(this.#folder, 'bird', 'bird.log') },
      podLinkPrefix: 'npl',
    });
    return text;
  }

  /** The session with the node of that number, over IPv4. */
  async sessionWith(number: number): Promise<SessionStatus | undefined> {
    const name = `peer_${addressesOf(number).ipv4.replaceAll('.', '_')}_179`;
    return (await this.bird.status(signal))?.find((session) => session.name === name);
  }

  async untilEstablished(...numbers: number[]): Promise<void> {
    for (const number of numbers) {
      const isUp = async (): Promise<boolean> => (await this.sessionWith(number))?.state === 'Established';
      await until(isUp, `node ${String(this.#number)} has a session with ${String(number)}`);
    }
  }

  /** Waits for a route in the kernel, and gives where it leads and its metric. */
  async untilRoute(cidr: string): Promise<string> {
    let found: string | undefined;
    const isThere = async (): Promise<boolean> => (found = await this.route(cidr)) !== undefined;
    await until(isThere, `node ${String(this.#number)} has a route to ${cidr}`);
    return found ?? '';
  }

  async untilNoRoute(cidr: string): Promise<void> {
    const isGone = async (): Promise<boolean> => (await this.route(cidr)) === undefined;
    await until(isGone, `node ${String(this.#number)} has no route to ${cidr}`);
  }

  /** Such as `172.31.0.3 metric 8192`. */
  async route(cidr: string): Promise<string | undefined> {
    const routes = await this.netns.ip(cidr.includes(':') ? '-6' : '-4', 'route', 'show', cidr, 'proto', 'bird');
    const [route] = routes;
    return route === undefined ? undefined : `${String(route['gateway'])} metric ${String(route['metric'])}`;
  }

  async pid(): Promise<number> {
    let pid = 0;
    // Written a moment after BIRD has gone into the background.
    await until(async () => {
      pid = Number(await readFile(join(this.#folder, 'bird', 'bird.pid'), 'utf8').catch(() => ''));
      return pid !== 0;
    }, 'BIRD says its process id');
    return pid;
  }

  async kill(): Promise<void> {
    process.kill(await this.pid(), 'SIGKILL');
    await this.bird.ended(signal);
  }

  async exitGracefully(): Promise<void> {
    await this.bird.exitGracefully(signal);
    await this.bird.ended(signal);
  }

  /** Runs BIRD with a configuration that is none of ours, as a router of the site would. */
  async beRouter(text: string): Promise<void> {
    await this.bird.apply(text, signal);
  }

  /** What BIRD knows about a route. */
  async describeRoute(cidr: string): Promise<string> {
    const socket = join(this.#folder, 'bird', 'bird.ctl');
    return this.netns.exec('birdc', '-s', socket, 'show', 'route', 'for', cidr, 'all');
  }

  /** Loses every packet, while the link stays up, until `speakAgain`. */
  async fallSilent(): Promise<void> {
    await this.netns.exec('nft', 'add table inet silent');
    for (const hook of ['input', 'output']) {
      const base = `{ type filter hook ${hook} priority 0; policy drop; }`;
      await this.netns.exec('nft', `add chain inet silent ${hook} ${base}`);
    }
  }

  async speakAgain(): Promise<void> {
    await this.netns.exec('nft', 'delete table inet silent');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bird.stop(signal);
    await rm(this.#folder, { recursive: true, force: true });
    await this.netns[Symbol.asyncDispose]();
  }
}
