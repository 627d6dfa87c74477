import { NetplugError } from '../../../src/base/errors.ts';
import { type Address, type Family, formatAddress, sameAddress } from '../../../src/net/address.ts';
import { type Cidr, cidrAround, cidrContains, formatCidr, hostCidr, sameCidr } from '../../../src/net/cidr.ts';
import type {
  HostChange,
  HostEvent,
  HostInterface,
  HostPath,
  LinkAddresses,
  HostNetwork,
  HostRoute,
  Refused,
  Tunnel,
  TunnelPeer,
} from '../../../src/dataplane/host-network.ts';
import type { OverruledPath, Overruling, WantedPath } from '../../../src/dataplane/overruled-paths.ts';

interface ForeignRoute {
  readonly destination: Cidr;
  readonly madeBy: 'administrator' | 'routing-daemon';
  readonly metric: number;
  readonly device?: string;
}

const MAIN_TABLE = 254;
const LOOPBACK: HostInterface = { name: 'lo', mtu: 65_536, isUp: true, isLoopback: true, addresses: [] };

/** A HostNetwork in memory, with methods for tests to prepare state, inject faults and count changes. */
export class MemoryHostNetwork implements HostNetwork {
  readonly #interfaces = new Map<string, HostInterface>([['lo', LOOPBACK]]);
  readonly #ordinaryLinks = new Set<string>();
  readonly #tunnels = new Map<string, Tunnel>();
  readonly #routes = new Map<string, HostRoute>();
  #foreignRoutes: ForeignRoute[] = [];
  /** Of other programs to single addresses; of several to one, the first is used. */
  #paths: { readonly address: Address; readonly device: string }[] = [];
  /** By device, then gateway. */
  readonly #neighbours = new Map<string, Map<string, TunnelPeer>>();
  readonly #watchers = new Set<(event: HostEvent) => void>();
  readonly #forwards: Record<Family, boolean> = { 4: false, 6: false };
  /** Links that do not forward IPv4. */
  readonly #stopped = new Set<string>();
  readonly #settingsBefore = new Map<Family, string>();
  #failure: Error | undefined;
  readonly #refusals: { readonly matches: (change: HostChange) => boolean; readonly reason: string }[] = [];
  readonly #overrulings: { readonly range: Cidr; readonly by: Overruling }[] = [];
  readonly #podLinks = new Map<string, readonly Address[]>();
  readonly #sourceChecks = new Set<string>();
  readonly #missingModules = new Set<Tunnel['encapsulation']['kind']>();
  #changesMade = 0;
  #newestPodLink: number | undefined;

  /** The number of requested changes, including refused ones. */
  get changesMade(): number {
    return this.#changesMade;
  }

  /** All tunnels, ordered by name. */
  get tunnels(): readonly Tunnel[] {
    return [...this.#tunnels.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Adds a link, or replaces the one of that name. */
  putInterface(link: HostInterface): void {
    this.#interfaces.set(link.name, link);
    this.#notify({ kind: 'links', devices: [link.name] });
  }

  /** Removes a link with its routes and tunnels. */
  removeInterface(name: string): void {
    this.#interfaces.delete(name);
    this.#forgetDevice(name);
    for (const { name: tunnel, encapsulation } of this.tunnels) {
      if (encapsulation.kind === 'vxlan' && encapsulation.uplink === name) this.#dropTunnel(tunnel);
    }
    this.#notify({ kind: 'links', devices: [name] });
  }

  /** Adds a link that is not a tunnel and not listed. */
  addOrdinaryLink(name: string): void {
    this.#ordinaryLinks.add(name);
  }

  /** Adds the link of a pod, which has the next number. */
  addPodLink(): void {
    this.#newestPodLink = (this.#newestPodLink ?? 0) + 1;
  }

  /** Removes a tunnel as another program would. */
  dropTunnel(name: string): void {
    this.#dropTunnel(name);
  }

  addForeignRoute(destination: Cidr, madeBy: ForeignRoute['madeBy'], metric = 0): void {
    this.#foreignRoutes.push({ destination, madeBy, metric });
  }

  addLearnedRoute(route: Omit<Required<ForeignRoute>, 'madeBy'>): void {
    this.#foreignRoutes.push({ ...route, madeBy: 'routing-daemon' });
  }

  /** Makes packets to the range take another path than that of netplug's route. */
  overrule(range: Cidr, by: Overruling): void {
    this.#overrulings.push({ range, by });
  }

  stopOverruling(): void {
    this.#overrulings.length = 0;
  }

  putPodLink(name: string, addresses: readonly Address[]): void {
    this.#podLinks.set(name, addresses);
  }

  removePodLink(name: string): void {
    this.#podLinks.delete(name);
  }

  /** Makes the route of another program to a single address, in place of its routes to that address through other links. */
  putPath(address: Address, device: string): void {
    this.removePath(address);
    this.#paths.push({ address, device });
    this.#notify({ kind: 'paths' });
  }

  /** Adds a further route of another program to the address, which the host does not use. */
  addUnusedPath(address: Address, device: string): void {
    this.#paths.push({ address, device });
    this.#notify({ kind: 'paths' });
  }

  removePath(address: Address): void {
    this.#paths = this.#paths.filter((path) => !sameAddress(path.address, address));
    this.#notify({ kind: 'paths' });
  }

  /** Counts routes to exactly the destination that are not the agent's. */
  countForeignRoutes(destination: Cidr): number {
    return this.#foreignRoutes.filter((route) => sameCidr(route.destination, destination)).length;
  }

  /** Changes routes and peers as another program would: neither counted nor refused. */
  disturb(changes: readonly HostChange[]): void {
    for (const change of changes) this.#make(change);
  }

  /** Makes the host refuse the next change that matches; several calls queue up. */
  refuseNext(matches: (change: HostChange) => boolean, reason = 'the kernel says ENOBUFS'): void {
    this.#refusals.push({ matches, reason });
  }

  /** Makes the next changes fail before any of them is applied, as without memory for them. */
  failNextChanges(cause: Error): void {
    this.#failure = cause;
  }

  /** Makes the host refuse tunnels of that kind. */
  removeModule(kind: Tunnel['encapsulation']['kind']): void {
    this.#missingModules.add(kind);
  }

  /** Makes the link drop IPv4 packets from sources to which no route leads through it. */
  checkSources(link: string): void {
    this.#sourceChecks.add(link);
  }

  /** Makes watchers lose events. */
  loseEvents(): void {
    this.#notify({ kind: 'unknown' });
  }

  async listInterfaces(): Promise<readonly HostInterface[]> {
    return [...this.#interfaces.values()];
  }

  async newestPodLink(): Promise<number | undefined> {
    return this.#newestPodLink;
  }

  async listAddresses(): Promise<readonly LinkAddresses[]> {
    const links = [...this.#interfaces.values()];
    return links.map(({ name, addresses }) => ({ name, addresses: addresses.map(({ address }) => address) }));
  }

  async listPaths(): Promise<readonly HostPath[]> {
    const connected = [...this.#interfaces.values()].flatMap(({ name, isUp, addresses }) =>
      addresses
        .filter(() => isUp)
        .map(({ address, prefixBits }) => ({
          destination: cidrAround(address, prefixBits),
          devices: [name],
          isConnected: true,
        })),
    );
    const routed = [...this.#routes.values()].flatMap(({ destination, hop }) =>
      hop.kind === 'gateway' ? [{ destination, devices: [hop.device], isConnected: false }] : [],
    );
    const foreign = this.#paths.map(({ address, device }) => {
      return { destination: hostCidr(address), devices: [device], isConnected: true };
    });
    return [...connected, ...routed, ...foreign].map((path) => ({ ...path, table: MAIN_TABLE }));
  }

  async listPodLinks(): Promise<readonly LinkAddresses[]> {
    return [...this.#podLinks].map(([name, addresses]) => ({ name, addresses }));
  }

  async findOverruled(paths: readonly WantedPath[]): Promise<readonly OverruledPath[]> {
    return paths.flatMap((path): OverruledPath[] => {
      const by = this.#overrulings.find(({ range }) => cidrContains(range, path.address))?.by;
      if (by !== undefined) return [{ path, by }];
      const foreign = this.#foreignRoutes.find(
        ({ destination, madeBy }) =>
          madeBy === 'administrator' &&
          destination.prefixBits >= path.destination.prefixBits &&
          cidrContains(destination, path.address),
      );
      if (foreign === undefined) return [];
      const { destination, metric } = foreign;
      const route = { rule: undefined, table: MAIN_TABLE, type: 'unicast', destination, metric } as const;
      return [{ path, by: { ...route, device: undefined, gateway: undefined } }];
    });
  }

  findSourceChecks(links: readonly string[]): ReadonlySet<string> {
    return new Set(links.filter((link) => this.#sourceChecks.has(link)));
  }

  async lookUp(address: Address): ReturnType<HostNetwork['lookUp']> {
    const path = this.#paths.find((each) => sameAddress(each.address, address));
    if (path !== undefined) return { device: path.device, source: undefined };
    const connected = [...this.#interfaces.values()]
      .filter(({ isUp }) => isUp)
      .flatMap(({ name, addresses }) =>
        addresses.map(({ address: source, prefixBits }) => ({ device: name, source, prefixBits })),
      );
    if (connected.some(({ source }) => sameAddress(source, address))) return { device: 'lo', source: address };
    const near = connected.find(({ source, prefixBits }) => cidrContains(cidrAround(source, prefixBits), address));
    if (near !== undefined) return { device: near.device, source: near.source };
    const [route] = [...this.#routes.values()]
      .filter(({ destination }) => cidrContains(destination, address))
      .sort((a, b) => b.destination.prefixBits - a.destination.prefixBits);
    return route?.hop.kind === 'gateway' ? { device: route.hop.device, source: undefined } : undefined;
  }

  async listRoutes(): Promise<readonly HostRoute[]> {
    return [...this.#routes.values()];
  }

  async listLearnedDestinations(metric: number): Promise<readonly Cidr[]> {
    return this.#foreignRoutes
      .filter((route) => route.madeBy === 'routing-daemon' && route.metric === metric)
      .map(({ destination }) => destination);
  }

  /** Those of routes that name one. */
  async listLearnedDevices(metric: number): Promise<readonly string[]> {
    const learned = this.#foreignRoutes.filter(
      (route) => route.madeBy === 'routing-daemon' && route.metric === metric && route.destination.base.family === 4,
    );
    return [...new Set(learned.flatMap(({ device }) => device ?? []))];
  }

  async listPeers(device: string): Promise<readonly TunnelPeer[]> {
    return [...(this.#neighbours.get(device)?.values() ?? [])];
  }

  async putTunnel(tunnel: Tunnel): Promise<'unchanged' | 'changed' | 'replaced'> {
    const { name, encapsulation } = tunnel;
    if (this.#ordinaryLinks.has(name) || this.#interfaces.has(name)) throw refused(name, 'another link has that name');
    if (encapsulation.kind === 'vxlan' && !this.#interfaces.has(encapsulation.uplink)) {
      throw refused(name, `there is no interface "${encapsulation.uplink}"`);
    }
    const before = this.#tunnels.get(name);
    if (before !== undefined && textOf(before) === textOf(tunnel)) return 'unchanged';
    if (this.#missingModules.has(encapsulation.kind)) throw missingModule(name, encapsulation.kind);
    const isReplaced = before !== undefined && fixedPartOf(before) !== fixedPartOf(tunnel);
    if (isReplaced) this.#forgetDevice(name);
    if (before !== undefined && macOf(before) !== macOf(tunnel)) this.#neighbours.delete(name);
    this.#tunnels.set(name, tunnel);
    this.#notify({ kind: 'links', devices: [name] });
    return isReplaced || (before !== undefined && macOf(before) !== macOf(tunnel)) ? 'replaced' : 'changed';
  }

  async findTunnels(names: readonly string[]): Promise<readonly string[]> {
    return names.filter((name) => this.#tunnels.has(name));
  }

  async findRivals(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  async removeTunnel(name: string): Promise<boolean> {
    return this.#dropTunnel(name);
  }

  async change(changes: readonly HostChange[], signal: AbortSignal): Promise<readonly Refused[]> {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure;
    const refusals: Refused[] = [];
    // Asynchronous, like the real host.
    await Promise.resolve();
    signal.throwIfAborted();
    for (const change of changes) {
      this.#changesMade += 1;
      const reason = this.#refusalOf(change);
      if (reason === undefined) this.#make(change);
      else refusals.push({ change, reason });
    }
    return refusals;
  }

  /** Stops forwarding of IPv4 packets that come by the link, as another program would. */
  stopForwarding(link: string): void {
    this.#stopped.add(link);
    this.#notify({ kind: 'settings', devices: [link] });
  }

  forwardsFrom(link: string): boolean {
    return this.#forwards[4] && !this.#stopped.has(link);
  }

  ensureForwarding(families: ReadonlySet<Family>, ipv4Links: readonly string[]): readonly string[] {
    const names = { 4: 'net.ipv4.ip_forward=0', 6: 'net.ipv6.conf.all.forwarding=0' } as const;
    const wrong = [...families].filter((family) => !this.#forwards[family]);
    for (const family of wrong) this.#forwards[family] = true;
    for (const family of wrong) this.#settingsBefore.set(family, names[family]);
    const links = families.has(4) ? ipv4Links.filter((link) => this.#stopped.delete(link)) : [];
    return [...wrong.map((family) => names[family]), ...links.map((link) => `net.ipv4.conf.${link}.forwarding=0`)];
  }

  findChangedSettings(): readonly string[] {
    return [...this.#settingsBefore.values()];
  }

  restoreSettings(): void {
    for (const family of this.#settingsBefore.keys()) this.#forwards[family] = false;
    this.#settingsBefore.clear();
  }

  watch(onEvent: (event: HostEvent) => void): Disposable {
    // A new function, because two watches may have the same callback.
    const watcher = (event: HostEvent): void => {
      onEvent(event);
    };
    this.#watchers.add(watcher);
    return {
      [Symbol.dispose]: () => {
        this.#watchers.delete(watcher);
      },
    };
  }

  #refusalOf(change: HostChange): string | undefined {
    const injected = this.#refusals.findIndex(({ matches }) => matches(change));
    if (injected !== -1) return this.#refusals.splice(injected, 1)[0]?.reason;
    if (change.kind === 'put-peer') {
      const { device } = change.peer;
      return this.#tunnels.has(device) ? undefined : `there is no interface "${device}"`;
    }
    if (change.kind !== 'put-route' || change.route.hop.kind === 'blackhole') return undefined;
    const { device, gateway, isOnLink } = change.route.hop;
    const link = this.#interfaces.get(device);
    if (link === undefined && !this.#tunnels.has(device)) return `there is no interface "${device}"`;
    const isNear = link?.addresses.some(({ address, prefixBits }) =>
      cidrContains(cidrAround(address, prefixBits), gateway),
    );
    return isOnLink || isNear === true ? undefined : 'the kernel says ENETUNREACH';
  }

  #make(change: HostChange): void {
    if (change.kind === 'put-peer' || change.kind === 'delete-peer') {
      this.#makePeer(change.kind, change.peer);
      return;
    }
    if (change.kind === 'delete-learned-route') {
      const { destination, metric } = change;
      const matches = (route: ForeignRoute): boolean =>
        route.madeBy === 'routing-daemon' && route.metric === metric && sameCidr(route.destination, destination);
      this.#foreignRoutes = this.#foreignRoutes.filter((route) => !matches(route));
      return;
    }
    const key = formatCidr(change.route.destination);
    const before = this.#routes.get(key);
    if (change.kind === 'put-route') {
      this.#routes.set(key, change.route);
      this.#notify({ kind: 'route-put', route: change.route });
    } else if (before !== undefined) {
      this.#routes.delete(key);
      this.#notify({ kind: 'route-deleted', route: before });
    }
  }

  #makePeer(kind: 'put-peer' | 'delete-peer', peer: TunnelPeer): void {
    const { device, mac, remote } = peer;
    const peers = this.#neighbours.get(device) ?? new Map<string, TunnelPeer>();
    this.#neighbours.set(device, peers);
    if (kind === 'delete-peer') {
      if (!peers.delete(formatAddress(peer.gateway))) return;
    } else {
      peers.set(formatAddress(peer.gateway), peer);
      // All gateways of a MAC share its forwarding entry.
      for (const [gateway, other] of peers) if (other.mac === mac) peers.set(gateway, { ...other, remote });
    }
    const isPut = kind === 'put-peer';
    this.#notify({ kind: isPut ? 'forwarding-put' : 'forwarding-deleted', device, mac, remote });
    const { gateway } = peer;
    this.#notify(
      isPut ? { kind: 'neighbour-put', device, gateway, mac } : { kind: 'neighbour-deleted', device, gateway },
    );
  }

  #dropTunnel(name: string): boolean {
    if (!this.#tunnels.delete(name)) return false;
    this.#forgetDevice(name);
    this.#notify({ kind: 'links', devices: [name] });
    return true;
  }

  /** Removes the routes and peers of a device. */
  #forgetDevice(name: string): void {
    this.#neighbours.delete(name);
    for (const [key, route] of this.#routes) {
      if (route.hop.kind !== 'gateway' || route.hop.device !== name) continue;
      this.#routes.delete(key);
      if (route.destination.base.family === 6) this.#notify({ kind: 'route-deleted', route });
    }
  }

  /** Notifies watchers asynchronously, never within the call that made the change. */
  #notify(event: HostEvent): void {
    for (const watcher of this.#watchers) {
      queueMicrotask(() => {
        if (this.#watchers.has(watcher)) watcher(event);
      });
    }
  }
}

/** Returns the properties of a tunnel that the kernel cannot change. */
function fixedPartOf({ encapsulation }: Tunnel): string {
  if (encapsulation.kind === 'ipip') return `ipip ${formatAddress(encapsulation.local)}`;
  const { vni, port, local, uplink } = encapsulation;
  return ['vxlan', vni, port, formatAddress(local), uplink].join(' ');
}

function macOf({ encapsulation }: Tunnel): string | undefined {
  return encapsulation.kind === 'vxlan' ? encapsulation.mac : undefined;
}

function textOf(tunnel: Tunnel): string {
  const addresses = tunnel.addresses.map(formatAddress);
  return [fixedPartOf(tunnel), macOf(tunnel) ?? '', tunnel.mtu, ...addresses.sort()].join(' ');
}

function refused(name: string, why: string): NetplugError {
  return new NetplugError('kernel/failed', `Cannot make tunnel "${name}": ${why}`, { facts: { tunnel: name } });
}

function missingModule(name: string, module: string): NetplugError {
  return new NetplugError('kernel/module-missing', `Cannot make tunnel "${name}": the kernel has no module ${module}`, {
    facts: { tunnel: name, module },
  });
}
