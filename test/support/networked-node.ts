// The networks of nodes, as their agents keep them, in memory.
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { systemRandom } from '../../src/base/random.ts';
import type { AttachmentPorts } from '../../src/apps/agent/network/host/read-attachments.ts';
import { type NetworkPorts, NodeNetwork } from '../../src/apps/agent/network/node-network.ts';
import type { NetworkSettings } from '../../src/apps/agent/network/network-settings.ts';
import type { BgpPorts } from '../../src/apps/agent/network/routes/reconcile-bgp.ts';
import type { SessionStatus } from '../../src/bgp/read-status.ts';
import { assign } from '../../src/ipam/assign.ts';
import { memoryRecords } from '../../src/cni/attachment-records.ts';
import type { HostSides } from '../../src/dataplane/kernel.ts';
import { MemoryChainedState } from './memory/memory-chained-state.ts';
import { MemoryKernel } from './memory/memory-kernel.ts';
import { MemoryHostNetwork } from './memory/memory-host-network.ts';
import type { TableFilter } from '../../src/dataplane/policy-filter.ts';
import { MemoryPolicyFilter } from './memory/memory-policy-filter.ts';
import { MemoryDatabase } from '../../src/datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../src/datastore/memory/memory-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import type { IpPool } from '../../src/model/ip-pool.ts';
import { type Address, formatAddress, parseAddress } from '../../src/net/address.ts';
import { formatCidr } from '../../src/net/cidr.ts';
import { nodeName } from './fixtures.ts';
import { requestOf } from './ipam-bench.ts';
import { until } from './until.ts';

const never = new AbortController().signal;

export interface RunningNode {
  readonly network: NodeNetwork;
  readonly host: MemoryHostNetwork;
  readonly bird: MemoryBird;
  readonly ended: Promise<void>;
  /** What the plugin would read. */
  readonly registered: (number | undefined)[];
  stop(): Promise<void>;
}

const running: RunningNode[] = [];

export async function stopNodes(): Promise<void> {
  await Promise.all(running.splice(0).map(async (node) => node.stop()));
}

export function hostAt(address: string, mtu = 1500): MemoryHostNetwork {
  const host = new MemoryHostNetwork();
  const [text = '', prefix = ''] = address.split('/');
  const addresses = [{ address: parseAddress(text), prefixBits: Number(prefix) }];
  host.putInterface({ name: 'eth0', mtu, isUp: true, isLoopback: false, addresses });
  return host;
}

/** A BIRD that remembers what it was configured with, and has sessions that the test chose. */
export class MemoryBird {
  /** As last started with or loaded. */
  text = '';
  starts = 0;
  /** How often links were counted since it has started. */
  counts = 0;
  sessions: readonly SessionStatus[] = [];
  /** Another program on the port of BGP. */
  portHolder: string | undefined;
  /** Why it does not take a configuration. */
  refusal: Error | undefined;
  #life: PromiseWithResolvers<void> | undefined;
  #firstLink: number | undefined;

  get isRunning(): boolean {
    return this.#life !== undefined;
  }

  async apply(text: string): Promise<'unchanged' | 'reloaded' | 'started'> {
    if (this.refusal !== undefined) throw this.refusal;
    if (this.#life === undefined) {
      this.#life = Promise.withResolvers();
      this.#firstLink = undefined;
      this.counts = 0;
      this.starts += 1;
      this.text = text;
      return Promise.resolve('started');
    }
    const applied = text === this.text ? 'unchanged' : 'reloaded';
    this.text = text;
    return Promise.resolve(applied);
  }

  async status(): Promise<readonly SessionStatus[] | undefined> {
    return Promise.resolve(this.isRunning ? this.sessions : undefined);
  }

  /** Sessions that could not listen begin once the port is free. */
  async enableSessions(): Promise<void> {
    if (this.portHolder === undefined) this.sessions = [];
    return Promise.resolve();
  }

  async findProcess(): Promise<number | undefined> {
    return Promise.resolve(undefined);
  }

  async linksSinceStart(newest: number): Promise<number> {
    this.counts += 1;
    return Promise.resolve(newest - (this.#firstLink ??= newest));
  }

  async exitGracefully(): Promise<void> {
    this.die();
    await Promise.resolve();
  }

  async ended(signal: AbortSignal): Promise<void> {
    const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    await Promise.race([this.#life?.promise, aborted]);
  }

  die(): void {
    this.#life?.resolve();
    this.#life = undefined;
  }
}

/** No pod has host ports. */
const NO_HOST_PORTS: NetworkPorts['hostPorts'] = {
  listLinks: () => [],
  chained: new MemoryChainedState(),
  findRecord: async () => Promise.resolve(undefined),
  findNetns: () => undefined,
  callPlugin: async () => Promise.resolve(undefined),
};

export function startNode(
  name: string,
  {
    store,
    host,
    clock = systemClock,
    readSecret = async () => Promise.resolve(undefined),
    blockSource = 'claims',
    detection = { 4: { kind: 'first-found' }, 6: { kind: 'first-found' } },
    filter = new MemoryPolicyFilter(),
    hostSides = new MemoryKernel(),
    hostPorts = NO_HOST_PORTS,
    sourceCheck = 'strict',
    attachments = { ...memoryRecords(), watch: () => ({ [Symbol.dispose]: () => undefined }) },
    attached = new Set(),
    birdLinks = 0,
    servers = [],
  }: { store: Store; host: MemoryHostNetwork } & Partial<
    Pick<BgpPorts, 'readSecret' | 'clock'> &
      Pick<NetworkSettings, 'blockSource' | 'detection' | 'sourceCheck' | 'birdLinks'> &
      Pick<AttachmentPorts, 'attachments'> & {
        readonly filter: TableFilter;
        readonly hostSides: HostSides;
        readonly hostPorts: NetworkPorts['hostPorts'];
        readonly servers: readonly Address[];
        readonly attached: ReadonlySet<string>;
      }
  >,
): RunningNode {
  const stop = new AbortController();
  const registered: (number | undefined)[] = [];
  const bird = new MemoryBird();
  const network = new NodeNetwork(
    {
      store,
      followed: store,
      host,
      hostSides,
      hostPorts,
      filter: () => filter,
      flowTable: () => ({ find: async () => Promise.resolve([]), end: async () => Promise.resolve(0) }),
      translations: { load: () => '', save: async () => Promise.resolve() },
      servers: { found: async () => Promise.resolve(), current: () => servers },
      clock,
      random: systemRandom,
      log: silentLog,
      bird,
      birdLog: '/dev/null',
      findListener: async () => Promise.resolve(bird.portHolder),
      readSecret,
      attachments,
      listAttached: () => attached,
      register: async ({ mtu }) => {
        registered.push(mtu);
        return Promise.resolve();
      },
    },
    {
      node: nodeName(name),
      detection,
      blockSource,
      sourceCheck,
      birdLinks,
      settingName: (variable) => variable,
    },
  );
  const ended = network.run(stop.signal);
  ended.catch(() => undefined);
  const node: RunningNode = {
    network,
    host,
    bird,
    ended,
    registered,
    stop: async () => {
      stop.abort();
      await ended.catch(() => undefined);
    },
  };
  running.push(node);
  return node;
}

export async function worldWith(
  ...pools: IpPool[]
): Promise<{ readonly database: MemoryDatabase; readonly store: Store }> {
  const database = new MemoryDatabase();
  const store = openMemoryStore(database);
  for (const pool of pools) await store.createResource(pool, never);
  return { database, store };
}

export async function routesOf({ host }: RunningNode): Promise<Record<string, string>> {
  const routes = await host.listRoutes();
  return Object.fromEntries(
    routes.map(({ destination, hop }) => [
      formatCidr(destination),
      hop.kind === 'blackhole' ? 'blackhole' : `${formatAddress(hop.gateway)} ${hop.device}`,
    ]),
  );
}

export async function works(...nodes: RunningNode[]): Promise<void> {
  for (const { network, registered } of nodes) {
    await until(
      () => network.problems().length === 0 && registered.length > 0,
      () =>
        network
          .problems()
          .map(({ text }) => text)
          .join('\n'),
    );
  }
}

/** Starts a pod on the node, and returns its block. */
export async function podOn(store: Store, node: string): Promise<string> {
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const limits = { signal: never, cleanupSignal: never };
  const [lease] = await assign(ports, requestOf(`pod-${node}`, { node }), limits);
  return formatCidr(lease!.block);
}

/** Node `a`, which routes to the block of a pod on its neighbour `b`. */
export async function neighbours(store: Store, host = hostAt('192.0.2.1/24')): Promise<RunningNode> {
  const [a, b] = [startNode('a', { store, host }), startNode('b', { store, host: hostAt('192.0.2.2/24') })];
  const block = await podOn(store, 'b');
  await works(a, b);
  await until(async () => (await routesOf(a))[block] !== undefined, 'a routes to the block of b');
  return a;
}
