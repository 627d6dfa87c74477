import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Mac } from '../net/mac.ts';
import type { OverruledPath, WantedPath } from './overruled-paths.ts';

/** The protocol number of every route of the agent. The agent changes no route with a different number. */
export const ROUTE_PROTOCOL = 118;
/**
 * Higher than the metrics of routes to pods (0 for IPv4, 1024 for IPv6) and of administrators' routes, so that a stale
 * route of the agent never hides a pod of this node.
 */
export const ROUTE_METRIC = 4096;

/** Way by which packets for a destination leave the host. */
export type Hop =
  /** For addresses of the node's own blocks that no pod has. */
  | { readonly kind: 'blackhole' }
  /** `isOnLink`: the gateway is reachable through the device although it is in no subnet of the device. */
  | { readonly kind: 'gateway'; readonly gateway: Address; readonly device: string; readonly isOnLink: boolean };

/** One route of the agent; there is at most one per destination. */
export interface HostRoute {
  readonly destination: Cidr;
  readonly hop: Hop;
}

/** A tunnel device of the agent. */
export interface Tunnel {
  readonly name: string;
  /** Bytes. */
  readonly mtu: number;
  /** The host's own addresses on it, as /32 or /128. */
  readonly addresses: readonly Address[];
  readonly encapsulation:
    | {
        readonly kind: 'vxlan';
        readonly mac: Mac;
        readonly vni: number;
        /** UDP. */
        readonly port: number;
        /** The node's own address, the source of outer packets. */
        readonly local: Address;
        /** Name of the link by which outer packets leave. */
        readonly uplink: string;
      }
    | { readonly kind: 'ipip'; readonly local: Address };
}

/** A remote end of a VXLAN device: a static neighbour from gateway to MAC, and a static forwarding entry from MAC to `remote`. */
export interface TunnelPeer {
  readonly device: string;
  /** The other node's address inside the tunnel. */
  readonly gateway: Address;
  readonly mac: Mac;
  /** The other node's own address. */
  readonly remote: Address;
}

/** A link of the host, among which the agent finds the node's addresses and uplink. */
export interface HostInterface {
  readonly name: string;
  readonly mtu: number;
  readonly isUp: boolean;
  readonly isLoopback: boolean;
  /** Global and usable addresses with their prefix length, in the kernel's order. */
  readonly addresses: readonly { readonly address: Address; readonly prefixBits: number }[];
}

export interface LinkAddresses {
  readonly name: string;
  readonly addresses: readonly Address[];
}

/** A route of the host, of any program and table but that of its own addresses. */
export interface HostPath {
  readonly destination: Cidr;
  readonly table: number;
  /** One, or those among which packets are distributed. */
  readonly devices: readonly string[];
  /** Whether the destination is the network of the link itself. */
  readonly isConnected: boolean;
}

export type HostChange =
  /** Adds the route, or atomically replaces the agent's route for that destination. */
  | { readonly kind: 'put-route'; readonly route: HostRoute }
  | { readonly kind: 'delete-route'; readonly route: HostRoute }
  /** Deletes a route that a routing daemon (BIRD) left behind. */
  | { readonly kind: 'delete-learned-route'; readonly destination: Cidr; readonly metric: number }
  | { readonly kind: 'put-peer'; readonly peer: TunnelPeer }
  | { readonly kind: 'delete-peer'; readonly peer: TunnelPeer };

/** A change the kernel refused. */
export interface Refused {
  readonly change: HostChange;
  readonly reason: string;
}

/** A change of the host, by any process including the agent. */
export type HostEvent =
  | { readonly kind: 'route-put'; readonly route: HostRoute }
  | { readonly kind: 'route-deleted'; readonly route: HostRoute }
  /**
   * A link or an address was added, removed or changed: interfaces and tunnels must be listed again. `devices` are the names
   * of the link before and after the change, none for an address of a link that has gone.
   */
  | { readonly kind: 'links'; readonly devices: readonly string[] }
  /** A route to a single address through a link that is not netplug's was added, changed or removed by another program. */
  | { readonly kind: 'paths' }
  /** A link of a pod was set down, or lost a route to a single address. */
  | { readonly kind: 'pod-links' }
  /** A setting of a pod's link, whose ADD has ended, may be one under which its packets are dropped. */
  | { readonly kind: 'pod-settings' }
  /** The same for other links: `devices` are their names, none for the settings of the whole host. */
  | { readonly kind: 'settings'; readonly devices: readonly string[] }
  /** A link of a pod may have got a limit of its rate. */
  | { readonly kind: 'rate-limits' }
  /** The neighbour entry of a tunnel peer … */
  | { readonly kind: 'neighbour-put'; readonly device: string; readonly gateway: Address; readonly mac: Mac }
  | { readonly kind: 'neighbour-deleted'; readonly device: string; readonly gateway: Address }
  /** … and its forwarding entry. */
  | {
      readonly kind: 'forwarding-put' | 'forwarding-deleted';
      readonly device: string;
      readonly mac: Mac;
      readonly remote: Address;
    }
  /** Some events were lost: everything must be listed again. */
  | { readonly kind: 'unknown' };

/** The network between nodes on one host. Changes only what belongs to the agent. */
export interface HostNetwork {
  /** Returns every link of the host except links of pods and tunnels of the agent. @throws kernel/failed */
  listInterfaces(): Promise<readonly HostInterface[]>;

  /** Returns every link of the host with all its addresses: also link-local, deprecated and tentative ones. @throws kernel/failed */
  listAddresses(): Promise<readonly LinkAddresses[]>;

  /**
   * Returns the number of the newest link of a pod; undefined without pods. The kernel numbers the links that are made on the
   * host in rising order, and keeps the numbers of those that come from elsewhere. @throws kernel/failed
   */
  newestPodLink(): Promise<number | undefined>;

  /** Returns the link and the source address that the host uses for packets to the address; undefined without a route. */
  lookUp(address: Address): Promise<{ readonly device: string; readonly source: Address | undefined } | undefined>;

  /** Returns the links of pods with the addresses that the ADD of each has recorded; each address once. @throws kernel/failed */
  listPodLinks(): Promise<readonly LinkAddresses[]>;

  /**
   * Returns those of the paths that packets of the host, or of one of its pods, do not take although their route exists: because a
   * routing rule chooses another table, or because another program has a route that goes before. Left out are rules for a single
   * pod, which are of its own network, and what the kernel does not tell. A path whose route is missing is not overruled.
   * @throws kernel/failed
   */
  findOverruled(paths: readonly WantedPath[]): Promise<readonly OverruledPath[]>;

  /** Returns by which links packets may leave the host, in no order. @throws kernel/failed */
  listPaths(): Promise<readonly HostPath[]>;

  /** Returns those of the links that drop IPv4 packets from sources to which no route leads through the link. */
  findSourceChecks(links: readonly string[]): ReadonlySet<string>;

  /** Returns the agent's own routes, of both families. @throws kernel/failed */
  listRoutes(): Promise<readonly HostRoute[]>;

  /** Returns destinations of the routes that a routing daemon (BIRD) has in the main table with the metric. @throws kernel/failed */
  listLearnedDestinations(metric: number): Promise<readonly Cidr[]>;

  /** Returns the devices by which the IPv4 ones of those routes lead, each once. @throws kernel/failed */
  listLearnedDevices(metric: number): Promise<readonly string[]>;

  /** Returns the peers of a tunnel device in the kernel, without neighbours that lack a forwarding entry. */
  listPeers(device: string): Promise<readonly TunnelPeer[]>;

  /**
   * Creates the device, or corrects it, or replaces it when the kernel cannot change it. Reports what was done. After
   * `replaced` the caller must add its peers and routes again. A device that was down or gets another MAC is also
   * reported as `replaced`, because the kernel drops its peers and routes.
   * @throws kernel/failed when there is no such uplink, or a link of that name that is not the agent's;
   * kernel/module-missing
   */
  putTunnel(tunnel: Tunnel): Promise<'unchanged' | 'changed' | 'replaced'>;

  /** Returns those of the names that are tunnels of the agent. @throws kernel/failed */
  findTunnels(names: readonly string[]): Promise<readonly string[]>;

  /** Returns the names of VXLAN devices of other programs with that number and port, which the kernel has only once. @throws kernel/failed */
  findRivals(vxlan: { readonly vni: number; readonly port: number }): Promise<readonly string[]>;

  /** Removes the tunnel; returns false when the agent has no tunnel of that name. */
  removeTunnel(name: string): Promise<boolean>;

  /**
   * Makes the changes in order, many per system call, off the main thread. A refused change does not stop the rest, and
   * deleting what does not exist succeeds. A route is deleted by its destination, regardless of its hop. A peer is
   * deleted by its gateway, and its forwarding entry with it unless another gateway has the same MAC.
   */
  change(changes: readonly HostChange[], signal: AbortSignal): Promise<readonly Refused[]>;

  /**
   * Enables forwarding for pods on the host, with IPv4 also of packets that come by each of the links; returns the settings that
   * it changed. @throws kernel/failed
   */
  ensureForwarding(families: ReadonlySet<4 | 6>, ipv4Links: readonly string[]): readonly string[];

  /** Returns the settings that changed since `ensureForwarding`, as `name=value` with the value before. */
  findChangedSettings(): readonly string[];

  /** Restores those settings. Idempotent. @throws kernel/failed */
  restoreSettings(): void;

  /**
   * Reports changes asynchronously until disposed; does not keep the process alive. IPv4 routes that the kernel removes
   * because their link was removed or shut down are reported as `links` only.
   */
  watch(onEvent: (event: HostEvent) => void): Disposable;
}
