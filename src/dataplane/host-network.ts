import type { Address } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Mac } from '../net/mac.ts';

/** Every route the agent makes carries this protocol number: by it the agent knows its own, and touches no other. */
export const ROUTE_PROTOCOL = 118;
/**
 * Behind the routes of pods (0 for IPv4, 1024 for IPv6) and of administrators, so that a route the agent has not yet
 * removed never hides a pod of this node.
 */
export const ROUTE_METRIC = 4096;

/** How packets for a destination leave the host. */
export type Hop =
  /** Addresses of the node's own blocks that no pod has. */
  | { readonly kind: 'blackhole' }
  /** `isOnLink`: the gateway is behind the device although no address of the device says so. */
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
        /** Of the node itself; outer packets leave with it. */
        readonly local: Address;
        /** Name of the link that outer packets leave by. */
        readonly uplink: string;
      }
    | { readonly kind: 'ipip'; readonly local: Address };
}

/** Another end of a VXLAN device: packets for the gateway go to its MAC, and those to `remote`. Both are static. */
export interface TunnelPeer {
  readonly device: string;
  /** The other node's address inside the tunnel. */
  readonly gateway: Address;
  readonly mac: Mac;
  /** The other node's own address. */
  readonly remote: Address;
}

/** A link of the host as the agent looks for its node's addresses and uplink. */
export interface HostInterface {
  readonly name: string;
  readonly mtu: number;
  readonly isUp: boolean;
  readonly isLoopback: boolean;
  /** Global and usable ones, with the prefix they were given with; in the kernel's order. */
  readonly addresses: readonly { readonly address: Address; readonly prefixBits: number }[];
}

export type HostChange =
  /** Adds the route, or replaces the one of the agent for that destination in one step. */
  | { readonly kind: 'put-route'; readonly route: HostRoute }
  | { readonly kind: 'delete-route'; readonly route: HostRoute }
  /** Deletes what a routing daemon (BIRD) has put and did not take with it. */
  | { readonly kind: 'delete-learned-route'; readonly destination: Cidr; readonly metric: number }
  | { readonly kind: 'put-peer'; readonly peer: TunnelPeer }
  | { readonly kind: 'delete-peer'; readonly peer: TunnelPeer };

/** A change the kernel refused. */
export interface Refused {
  readonly change: HostChange;
  readonly reason: string;
}

/** What somebody (also the agent itself) changed on the host. */
export type HostEvent =
  | { readonly kind: 'route-put'; readonly route: HostRoute }
  | { readonly kind: 'route-gone'; readonly route: HostRoute }
  /** A link or an address came, went or changed: interfaces and tunnels are to be looked at anew. */
  | { readonly kind: 'links' }
  /** Half of a peer of a tunnel: who has the address inside … */
  | { readonly kind: 'neighbour-put'; readonly device: string; readonly gateway: Address; readonly mac: Mac }
  | { readonly kind: 'neighbour-gone'; readonly device: string; readonly gateway: Address }
  /** … and on which node that is. */
  | {
      readonly kind: 'forwarding-put' | 'forwarding-gone';
      readonly device: string;
      readonly mac: Mac;
      readonly remote: Address;
    }
  /** Some events were lost: everything is to be looked at anew. */
  | { readonly kind: 'unknown' };

/** The host's side of the network between nodes. Touches nothing that is not the agent's own. */
export interface HostNetwork {
  /** Every link of the host but pods' and the agent's tunnels. @throws kernel/failed */
  listInterfaces(): Promise<readonly HostInterface[]>;

  /** The name of the link the host would send packets for the address by, and its source address; undefined when it has no route. */
  lookUp(address: Address): Promise<{ readonly device: string; readonly source: Address | undefined } | undefined>;

  /** The agent's own routes, of both families. @throws kernel/failed */
  listRoutes(): Promise<readonly HostRoute[]>;

  /** Destinations to which a routing daemon (BIRD) has put a route of the metric to the main table. @throws kernel/failed */
  listLearnedDestinations(metric: number): Promise<readonly Cidr[]>;

  /** Peers of a tunnel device as the kernel has them; halves (a neighbour without forwarding entry) are left out. */
  listPeers(device: string): Promise<readonly TunnelPeer[]>;

  /**
   * Makes the device as described or corrects it, replacing it only when the kernel cannot change it; says whether
   * something had to be done. After `replaced` its peers and routes have to be put again; that is also said of a device
   * that was down or gets another MAC, because the kernel forgot.
   * @throws kernel/failed when there is no such uplink, or a link of that name that is not the agent's;
   * kernel/module-missing
   */
  putTunnel(tunnel: Tunnel): Promise<'unchanged' | 'changed' | 'replaced'>;

  /** Returns those of the names that are tunnels of the agent. @throws kernel/failed */
  findTunnels(names: readonly string[]): Promise<readonly string[]>;

  /** @returns whether there was such a tunnel of the agent */
  removeTunnel(name: string): Promise<boolean>;

  /**
   * Carries the changes out in their order, many per system call, off the main thread; one refusal does not stop the
   * others, and deleting what is gone is none. A route is deleted wherever it leads. A peer is deleted by its gateway,
   * and its forwarding entry with it unless another gateway has the same MAC.
   */
  change(changes: readonly HostChange[], signal: AbortSignal): Promise<readonly Refused[]>;

  /** Sets what the host needs to forward for pods; says what had to be set. @throws kernel/failed */
  ensureForwarding(families: ReadonlySet<4 | 6>): readonly string[];

  /** Returns settings that are no longer as before `ensureForwarding`, as `name=value` with the value from before. */
  findChangedSettings(): readonly string[];

  /** Puts those settings back. May be repeated. @throws kernel/failed */
  restoreSettings(): void;

  /**
   * Tells what changes, soon after, until disposed; does not keep the process alive. IPv4 routes that go because their
   * link went or was shut are told as `links` only.
   */
  watch(onEvent: (event: HostEvent) => void): Disposable;
}
