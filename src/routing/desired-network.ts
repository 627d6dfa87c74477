import type { HostChange, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import { formatCidr } from '../net/cidr.ts';
import type { ClusterState } from './cluster-state.ts';
import type { Touched } from './membership.ts';
import { type OwnNetwork, planBlockRoutes, planPeers } from './plan-hops.ts';
import { diffTables } from './diff-tables.ts';
import { peerKey, routeKey, sameHop, sameOwnNetwork, samePeer } from './same-network.ts';
import { TUNNELS } from './tunnels.ts';

/** Numbers of routes by the way in which packets leave the node. */
export type RouteKinds = Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;

const TUNNEL_DEVICES: readonly string[] = Object.values(TUNNELS).map(({ device }) => device);

/** The planned routes and peers, with the blocks and nodes that each is for. */
class Plan {
  /** By destination. */
  readonly #routes = new Map<string, HostRoute>();
  readonly #peers = new Map<string, TunnelPeer>();
  readonly #peersOf = new Map<NodeName, readonly TunnelPeer[]>();
  /** The number of nodes that have each key of a peer. */
  readonly #holders = new Map<string, number>();
  /** By block. */
  readonly routesOf = new Map<string, readonly HostRoute[]>();
  /** Updated with each route. */
  readonly kinds = { blackhole: 0, direct: 0, tunnelled: 0 };

  get routes(): ReadonlyMap<string, HostRoute> {
    return this.#routes;
  }

  /** By `peerKey`. */
  get peers(): ReadonlyMap<string, TunnelPeer> {
    return this.#peers;
  }

  /**
   * Sets the peers of a node, and returns the changes for the kernel. Two nodes have one tunnel address while the record of one
   * that is removed, the last that goes, is still there: then the node that was set last has the peer.
   */
  setPeers(node: NodeName, after: readonly TunnelPeer[]): readonly HostChange[] {
    const before = this.#peersOf.get(node) ?? [];
    if (after.length === 0) this.#peersOf.delete(node);
    else this.#peersOf.set(node, after);
    for (const peer of before) this.#count(peerKey(peer), -1);
    for (const peer of after) this.#count(peerKey(peer), 1);
    const put = after.filter((peer) => !before.some((old) => samePeer(old, peer)));
    const deleted: TunnelPeer[] = [];
    for (const peer of before.filter((old) => !after.some((each) => peerKey(each) === peerKey(old)))) {
      const heir = this.#heirOf(peerKey(peer));
      if (heir === undefined) deleted.push(peer);
      else put.push(heir);
    }
    for (const peer of put) this.#peers.set(peerKey(peer), peer);
    for (const peer of deleted) this.#peers.delete(peerKey(peer));
    return [
      ...put.map((peer): HostChange => ({ kind: 'put-peer', peer })),
      ...deleted.map((peer): HostChange => ({ kind: 'delete-peer', peer })),
    ];
  }

  #count(key: string, by: 1 | -1): void {
    const holders = (this.#holders.get(key) ?? 0) + by;
    if (holders === 0) this.#holders.delete(key);
    else this.#holders.set(key, holders);
  }

  #heirOf(key: string): TunnelPeer | undefined {
    if (!this.#holders.has(key)) return undefined;
    return [...this.#peersOf.values()].flat().findLast((peer) => peerKey(peer) === key);
  }

  putRoute(name: string, route: HostRoute): void {
    this.dropRoute(name);
    this.#routes.set(name, route);
    this.kinds[kindOf(route)] += 1;
  }

  dropRoute(name: string): void {
    const before = this.#routes.get(name);
    if (before !== undefined) this.kinds[kindOf(before)] -= 1;
    this.#routes.delete(name);
  }
}

function kindOf({ hop }: HostRoute): keyof RouteKinds {
  if (hop.kind === 'blackhole') return 'blackhole';
  return TUNNEL_DEVICES.includes(hop.device) ? 'tunnelled' : 'direct';
}

/**
 * Plans the routes and tunnel peers of this node incrementally: a change of the cluster replans only the blocks and nodes
 * that it affects.
 */
export class DesiredNetwork {
  readonly #self: NodeName;
  readonly #state: ClusterState;
  #own: OwnNetwork = { addresses: new Map(), tunnels: new Set() };
  #plan = new Plan();

  constructor(self: NodeName, state: ClusterState) {
    this.#self = self;
    this.#state = state;
  }

  /** By destination. */
  get routes(): ReadonlyMap<string, HostRoute> {
    return this.#plan.routes;
  }

  /** By `peerKey`. */
  get peers(): ReadonlyMap<string, TunnelPeer> {
    return this.#plan.peers;
  }

  get routeKinds(): RouteKinds {
    return this.#plan.kinds;
  }

  /** Reports whether routes or peers may lead through the device. */
  usesDevice(device: string): boolean {
    return TUNNEL_DEVICES.includes(device) || [...this.#own.addresses.values()].some((own) => own.device === device);
  }

  /** Sets the addresses and tunnels of this node. Returns the changes for the kernel. */
  setOwnNetwork(own: OwnNetwork): readonly HostChange[] {
    if (sameOwnNetwork(this.#own, own)) return [];
    this.#own = own;
    return this.#replanAll();
  }

  /** Replans what a change of the cluster affects. Returns the changes for the kernel, each peer before the routes over it. */
  replan(touched: Touched): readonly HostChange[] {
    if (touched === 'all') return this.#replanAll();
    const { blocks, nodes } = this.#withBlocksOf(touched);
    const peers = nodes.flatMap((node) => this.#plan.setPeers(node, this.#planPeers(node)));
    const routes = this.#replanRoutes(blocks);
    const isPut = ({ kind }: HostChange): boolean => kind === 'put-peer';
    return [...peers.filter(isPut), ...routes, ...peers.filter((change) => !isPut(change))];
  }

  /** Builds a new plan, then replaces the old one in one step. */
  #replanAll(): readonly HostChange[] {
    const plan = new Plan();
    for (const node of this.#state.nodeNames) {
      plan.setPeers(node, this.#planPeers(node));
    }
    for (const [key, block] of this.#state.blocks) {
      const routes = this.#planRoutes(block);
      plan.routesOf.set(key, routes);
      for (const route of routes) plan.putRoute(routeKey(route), route);
    }
    const changes = diffTables(plan, this.#plan);
    this.#plan = plan;
    return changes;
  }

  #withBlocksOf({ blocks, nodes }: Exclude<Touched, 'all'>): Exclude<Touched, 'all'> {
    const theirs = nodes.flatMap((node) => this.#state.blocksOf(node).map(({ cidr }) => formatCidr(cidr)));
    return { blocks: [...new Set([...blocks, ...theirs])], nodes };
  }

  /** A destination may move from one block to another in one change, so routes to delete are known only at the end. */
  #replanRoutes(keys: readonly string[]): readonly HostChange[] {
    const plan = this.#plan;
    const gone = new Map<string, HostRoute>();
    const put: HostRoute[] = [];
    for (const key of keys) for (const route of plan.routesOf.get(key) ?? []) gone.set(routeKey(route), route);
    for (const key of keys) {
      const block = this.#state.blocks.get(key);
      const routes = block === undefined ? [] : this.#planRoutes(block);
      if (block === undefined) plan.routesOf.delete(key);
      else plan.routesOf.set(key, routes);
      for (const route of routes) {
        const name = routeKey(route);
        const before = plan.routes.get(name);
        gone.delete(name);
        if (before !== undefined && sameHop(before.hop, route.hop)) continue;
        plan.putRoute(name, route);
        put.push(route);
      }
    }
    for (const name of gone.keys()) plan.dropRoute(name);
    return [
      ...put.map((route): HostChange => ({ kind: 'put-route', route })),
      ...[...gone.values()].map((route): HostChange => ({ kind: 'delete-route', route })),
    ];
  }

  #planRoutes(block: RoutedBlock): readonly HostRoute[] {
    const endsOf = (node: NodeName): ReturnType<ClusterState['endsOf']> => this.#state.endsOf(node);
    return planBlockRoutes(block, this.#state.poolAround(block.cidr), { self: this.#self, own: this.#own, endsOf });
  }

  #planPeers(node: NodeName): readonly TunnelPeer[] {
    return node === this.#self ? [] : planPeers(this.#state.endsOf(node), this.#own);
  }
}
