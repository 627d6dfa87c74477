import { reasonOf } from '../../base/errors.ts';
import type { HostEvent, HostNetwork, HostRoute } from '../../dataplane/host-network.ts';
import type { PacketFilter } from '../../dataplane/packet-filter.ts';
import type { ClusterChange, NodeFacts } from '../../datastore/store.ts';
import type { IpamPorts } from '../../ipam/assign.ts';
import type { NodeName } from '../../model/names.ts';
import type { ShownNetwork } from '../../model/shown-network.ts';
import type { WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { type Address, FAMILIES, type Family, formatAddress } from '../../net/address.ts';
import { addressAt, type Cidr, parseCidr } from '../../net/cidr.ts';
import { type BlockSource, ClusterState, type Touched } from '../../routing/cluster-state.ts';
import { DesiredNetwork } from '../../routing/desired-network.ts';
import type { Detection } from '../../routing/detect-address-method.ts';
import { renderNat } from '../../routing/nat-table.ts';
import type { OwnAddress } from '../../routing/plan-hops.ts';
import { isByBgp } from '../../routing/pool-modes.ts';
import { type TunnelKind, TUNNELS } from '../../routing/tunnels.ts';
import type { NetworkStanding } from '../network-gauges.ts';
import { type BgpPorts, keepBgp } from './keep-bgp.ts';
import { RouteKeeper } from './keep-routes.ts';
import { keepTunnels, type OwnTunnel } from './keep-tunnels.ts';
import { Keeper } from './keeper.ts';
import { localEndpoints, type LocalEndpoints, NO_ENDPOINTS } from './local-endpoints.ts';
import { offeredMtu } from './offered-mtu.ts';
import { findOwnAddresses, refuseConflict } from './own-addresses.ts';

const LONGEST_PAUSE_MS = 5000;
/** Everything on the host is looked at so often although nothing was heard. */
const COMPARE_MS = 60_000;
/** What nobody tells of: forwarding, and translation. */
const LOOK_MS = 10_000;
const ENDPOINTS_MS = 5000;
const EXPIRE_MS = 1000;
/** Where there is no BIRD, it is looked for again after so long. */
const BIRD_MS = 1000;

export interface NetworkPorts extends IpamPorts, BgpPorts {
  readonly host: HostNetwork;
  readonly filter: PacketFilter;
  /** The endpoints of this node's pods. */
  readonly listEndpoints: (signal: AbortSignal) => Promise<readonly WorkloadEndpoint[]>;
  /** Writes what the plugin reads: the MTU for pods first, the node's name last. */
  readonly register: (offer: { readonly mtu: number | undefined }) => Promise<void>;
}

export interface NetworkSettings {
  readonly node: NodeName;
  readonly detection: Readonly<Record<Family, Detection>>;
  readonly blockSource: BlockSource;
}

type Part = 'addresses' | 'tunnels' | 'facts' | 'routes' | 'nat' | 'bgp' | 'endpoints';

/** What must have worked once before: an agent that begins must not take down what it does not know yet. */
const NEEDS: Readonly<Record<Part, readonly Part[]>> = {
  addresses: [],
  endpoints: [],
  tunnels: ['addresses'],
  facts: ['tunnels'],
  routes: ['tunnels'],
  nat: ['tunnels', 'endpoints'],
  bgp: ['tunnels', 'endpoints'],
};
const PARTS: readonly Part[] = ['addresses', 'endpoints', 'tunnels', 'facts', 'routes', 'nat', 'bgp'];

/**
 * The node's side of the network between nodes. It follows the cluster and the host, and keeps each part of the node as
 * it shall be; what it has made stays when it ends, so that pods go on without it.
 */
export class NodeNetwork {
  readonly #ports: NetworkPorts;
  readonly #settings: NetworkSettings;
  readonly #state: ClusterState;
  readonly #desired: DesiredNetwork;
  readonly #routes: RouteKeeper;
  #addresses: ReadonlyMap<Family, OwnAddress> = new Map();
  #tunnels: readonly OwnTunnel[] = [];
  #endpoints: LocalEndpoints = NO_ENDPOINTS;
  /** Parts that are left out, a sentence each. */
  readonly #leftOut: Partial<Record<Part, readonly string[]>> = {};
  #cutOff: string | undefined = 'the datastore is being read';
  readonly #keepers: Readonly<Record<Part, Keeper>>;
  readonly #registration: Keeper;
  /** What was registered last. */
  #told: string | undefined;
  /** Rejects when the node must not go on: its address is another node's. */
  readonly #fatal = Promise.withResolvers<never>();

  constructor(ports: NetworkPorts, settings: NetworkSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#state = new ClusterState(settings.blockSource);
    this.#desired = new DesiredNetwork(settings.node, this.#state);
    this.#routes = new RouteKeeper(ports, this.#desired);
    const keeper = (name: string, work: (signal: AbortSignal) => Promise<void>, everyMs?: number): Keeper =>
      new Keeper({
        name,
        clock: ports.clock,
        log: ports.log,
        ...(everyMs === undefined ? {} : { everyMs }),
        work,
        onTried: () => {
          this.#registration.poke();
          this.#poke(...PARTS.filter((part) => !this.#keepers[part].hasWorked));
        },
      });
    this.#keepers = {
      addresses: keeper('addresses', async () => this.#keepAddresses(), LOOK_MS),
      tunnels: keeper('tunnels', async (signal) => this.#keepTunnels(signal), COMPARE_MS),
      facts: keeper(
        'node facts',
        async (signal) => ports.store.publishNode(settings.node, this.#facts(), signal),
        COMPARE_MS,
      ),
      routes: keeper('routes', async (signal) => this.#routes.work(signal), COMPARE_MS),
      endpoints: keeper('endpoints', async (signal) => this.#readEndpoints(signal), ENDPOINTS_MS),
      nat: keeper('nat', async (signal) => this.#keepNat(signal), LOOK_MS),
      bgp: keeper('bgp', async (signal) => this.#keepBgp(signal), COMPARE_MS),
    };
    this.#registration = new Keeper({
      name: 'registration',
      clock: ports.clock,
      log: ports.log,
      work: async (signal) => this.#register(signal),
    });
  }

  /** Why the network does not work as it shall, a sentence each. */
  problems(): readonly string[] {
    const parts = Object.values(this.#keepers).flatMap(({ name, problem }) =>
      problem === undefined ? [] : `${name}: ${problem}`,
    );
    return [...(this.#cutOff === undefined ? [] : [this.#cutOff]), ...Object.values(this.#leftOut).flat(), ...parts];
  }

  async show(signal: AbortSignal): Promise<ShownNetwork> {
    const { node } = this.#settings;
    return {
      node,
      addresses: [...this.#addresses.values()].map(({ address, prefixBits, device }) => ({
        address: `${formatAddress(address)}/${String(prefixBits)}`,
        device,
      })),
      tunnels: this.#tunnels.map(({ kind, address }) => ({
        device: TUNNELS[kind].device,
        ...(address === undefined ? {} : { address: formatAddress(address) }),
      })),
      routes: countRoutes([...this.#desired.routes.values()]),
      peers: this.#desired.peers.size,
      nodes: this.#state.nodes.length,
      pools: this.#state.pools.map(({ pool, mode }) => ({
        name: pool.metadata.name,
        cidr: pool.spec.cidr,
        mode: mode.kind === 'bgp' ? 'BGP' : `${mode.kind === 'vxlan' ? 'VXLAN' : 'IPIP'} ${mode.extent}`,
      })),
      bgp: await this.#sessions(signal),
      problems: [...this.problems()],
    };
  }

  standing(): NetworkStanding {
    return {
      routes: countRoutes([...this.#desired.routes.values()]),
      peers: this.#desired.peers.size,
      ...this.#routes.counts,
      problems: this.problems().length,
    };
  }

  /** Pods have come or gone. */
  noteCall(): void {
    if (this.#state.isKnown) this.#keepers.endpoints.poke();
  }

  /** Keeps the network until the signal ends it. @throws agent/address-conflict */
  async run(signal: AbortSignal): Promise<void> {
    using _watch = this.#ports.host.watch((event) => this.#notice(event));
    const keepers = [...Object.values(this.#keepers), this.#registration];
    const work = [
      this.#follow(signal),
      this.#expire(signal),
      this.#watchBird(signal),
      ...keepers.map(async (each) => each.run(signal)),
    ];
    await Promise.race([Promise.all(work), this.#fatal.promise]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { store, log, clock } = this.#ports;
    for (let failures = 0; !signal.aborted; failures += 1) {
      try {
        for await (const change of store.watchCluster(signal)) {
          this.#learn(change);
          failures = 0;
          this.#cutOff = undefined;
        }
      } catch (cause) {
        if (signal.aborted) return;
        this.#cutOff = `the cluster is not heard of: ${reasonOf(cause)}`;
        if (failures === 0) log.warning('cluster is not heard of, routes stay', { reason: reasonOf(cause) });
      }
      await clock.sleep(Math.min(LONGEST_PAUSE_MS, 100 * 2 ** failures), signal).catch(() => undefined);
    }
  }

  #learn(change: ClusterChange): void {
    const touched = this.#state.learn(change, this.#ports.clock.monotonic());
    if (change.kind === 'all')
      for (const problem of change.problems) this.#ports.log.warning('record skipped', { problem });
    this.#followTo(touched);
    if (change.kind === 'all') this.#poke(...PARTS);
    else if (change.kind === 'block') this.#poke('bgp');
    else if (change.which.kind === 'IPPool') this.#poke('addresses', 'tunnels', 'nat', 'bgp');
    else if (change.which.kind !== 'Node') this.#poke('bgp');
    else
      this.#poke(
        'bgp',
        ...(change.which.name === this.#settings.node ? (['addresses', 'tunnels', 'facts'] as const) : []),
      );
  }

  #followTo(touched: Touched): void {
    const changes = this.#desired.follow(touched);
    this.#routes.add(changes);
    if (changes.length > 0 || touched === 'all') this.#poke('routes');
  }

  #notice(event: HostEvent): void {
    if (!this.#state.isKnown) return;
    if (event.kind === 'links' || event.kind === 'unknown') this.#poke('addresses', 'tunnels');
    if (this.#routes.notice(event)) this.#poke('routes');
  }

  /** Ends the modes of pools that only lingered. */
  async #expire(signal: AbortSignal): Promise<void> {
    const { clock } = this.#ports;
    while (!signal.aborted) {
      await clock.sleep(EXPIRE_MS, signal).catch(() => undefined);
      if (!this.#state.expire(clock.monotonic())) continue;
      this.#followTo('all');
      this.#poke('tunnels', 'nat', 'bgp');
    }
  }

  async #keepAddresses(): Promise<void> {
    const { host } = this.#ports;
    const { node } = this.#settings;
    const { addresses, problems } = await findOwnAddresses(host, this.#state, this.#settings);
    try {
      refuseConflict(node, addresses, this.#state);
    } catch (cause) {
      this.#fatal.reject(cause);
      throw cause;
    }
    this.#leftOut.addresses = problems;
    host.ensureForwarding(new Set(FAMILIES));
    this.#addresses = addresses;
    this.#settle();
    this.#poke('tunnels', 'facts', 'bgp');
  }

  async #keepTunnels(signal: AbortSignal): Promise<void> {
    const question = { node: this.#settings.node, state: this.#state, addresses: this.#addresses };
    const byPodCidr = { fixedAddress: (kind: TunnelKind) => this.#podCidrAddress(kind) };
    const { tunnels, problems } = await keepTunnels(
      this.#ports,
      this.#settings.blockSource === 'claims' ? question : { ...question, ...byPodCidr },
      signal,
    );
    this.#tunnels = tunnels;
    if (tunnels.some(({ isNew }) => isNew)) this.#routes.doubt();
    this.#leftOut.tunnels = problems;
    this.#settle();
    this.#poke('facts', 'nat');
  }

  #settle(): void {
    const tunnels = new Set(this.#tunnels.map(({ kind }) => kind));
    this.#routes.add(this.#desired.settle({ addresses: this.#addresses, tunnels }));
    this.#poke('routes');
  }

  /** host-local never gives a pod the first address of its range: it is the gateway's. */
  #podCidrAddress(kind: TunnelKind): Address | undefined {
    const texts = this.#state.findNode(this.#settings.node)?.spec.podCIDRs ?? [];
    const own = texts.map(parseCidr).find(({ base }) => base.family === TUNNELS[kind].family);
    return own === undefined ? undefined : addressAt(own, 1);
  }

  #facts(): NodeFacts {
    const tunnel = new Map(this.#tunnels.map((each) => [each.kind, each]));
    const text = (address: Address | undefined): string | undefined =>
      address === undefined ? undefined : formatAddress(address);
    const own = (family: Family): string | undefined => {
      const found = this.#addresses.get(family);
      return found === undefined ? undefined : `${formatAddress(found.address)}/${String(found.prefixBits)}`;
    };
    const facts = {
      ipv4Address: own(4),
      ipv6Address: own(6),
      ipv4VXLANTunnelAddr: text(tunnel.get('vxlan4')?.address),
      vxlanTunnelMACAddr: tunnel.get('vxlan4')?.mac,
      ipv6VXLANTunnelAddr: text(tunnel.get('vxlan6')?.address),
      vxlanTunnelMACAddrV6: tunnel.get('vxlan6')?.mac,
      ipv4IPIPTunnelAddr: text(tunnel.get('ipip4')?.address),
    };
    return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined));
  }

  async #readEndpoints(signal: AbortSignal): Promise<void> {
    const now = localEndpoints(await this.#ports.listEndpoints(signal));
    const isSame = now.text === this.#endpoints.text;
    this.#endpoints = now;
    if (!isSame) this.#poke('nat', 'bgp');
  }

  async #keepNat(signal: AbortSignal): Promise<void> {
    const { pools } = this.#state;
    const cidrs = (which: readonly (typeof pools)[number][]): readonly Cidr[] => which.map(({ cidr }) => cidr);
    await this.#ports.filter.replace(
      renderNat({
        natPools: cidrs(pools.filter(({ pool }) => pool.spec.natOutgoing)),
        allPools: cidrs(pools),
        floating: this.#endpoints.floating,
        tunnels: this.#tunnels.map(({ kind }) => TUNNELS[kind].device),
      }),
      signal,
    );
  }

  async #keepBgp(signal: AbortSignal): Promise<void> {
    this.#leftOut.bgp = await keepBgp(
      this.#ports,
      {
        node: this.#settings.node,
        state: this.#state,
        addresses: this.#addresses,
        localAddresses: this.#endpoints.announced,
      },
      signal,
    );
  }

  /** Undefined while BIRD does not run. */
  async #sessions(signal: AbortSignal): Promise<ShownNetwork['bgp']> {
    const sessions = await this.#ports.bird.status(signal);
    return sessions?.map(({ peerAddress, kind, state, sinceMs, info }) => ({
      peer: formatAddress(peerAddress),
      kind,
      state,
      since: new Date(sinceMs).toISOString(),
      info,
    }));
  }

  /** A BIRD that ends is started again at once. */
  async #watchBird(signal: AbortSignal): Promise<void> {
    const { bird, clock } = this.#ports;
    while (!signal.aborted) {
      await bird.ended(signal).catch(() => undefined);
      if (this.#state.pools.some(isByBgp)) this.#poke('bgp');
      await clock.sleep(BIRD_MS, signal).catch(() => undefined);
    }
  }

  async #register(signal: AbortSignal): Promise<void> {
    const { store, register } = this.#ports;
    const problems = this.problems();
    const mtu = offeredMtu(this.#addresses, this.#state.pools);
    const told = JSON.stringify([mtu, problems]);
    // Before it has worked once, nothing is known that would be worth a word.
    if (told === this.#told || (this.#told === undefined && problems.length > 0)) return;
    if (problems.length === 0) await register({ mtu });
    const report =
      problems.length === 0
        ? { isUp: true, reason: 'NetplugIsUp', message: 'netplug-agent routes between this node and the others' }
        : { isUp: false, reason: 'NetplugIsNotReady', message: problems.join('; ') };
    await store.reportNetwork(this.#settings.node, report, signal);
    this.#told = told;
  }

  #poke(...names: Part[]): void {
    if (!this.#state.isKnown) return;
    const mayBegin = (name: Part): boolean => NEEDS[name].every((needed) => this.#keepers[needed].hasWorked);
    for (const name of names.filter(mayBegin)) this.#keepers[name].poke();
  }
}

function countRoutes(routes: readonly HostRoute[]): ShownNetwork['routes'] {
  const tunnels = Object.values(TUNNELS).map(({ device }) => device);
  const counts = { blackhole: 0, direct: 0, tunnelled: 0 };
  for (const { hop } of routes) {
    if (hop.kind === 'blackhole') counts.blackhole += 1;
    else if (tunnels.includes(hop.device)) counts.tunnelled += 1;
    else counts.direct += 1;
  }
  return counts;
}
