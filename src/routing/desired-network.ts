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
  /** By `peerKey`. */
  readonly peers = new Map<string, TunnelPeer>();
  /** By block. */
  readonly routesOf = new Map<string, readonly HostRoute[]>();
  readonly peersOf = new Map<NodeName, readonly TunnelPeer[]>();
  /** Updated with each route. */
  readonly kinds = { blackhole: 0, direct: 0, tunnelled: 0 };

  get routes(): ReadonlyMap<string, HostRoute> {
    return this.#routes;
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
    const peers = nodes.flatMap((node) => this.#replanPeers(node));
    const routes = this.#replanRoutes(blocks);
    const isPut = ({ kind }: HostChange): boolean => kind === 'put-peer';
    return [...peers.filter(isPut), ...routes, ...peers.filter((change) => !isPut(change))];
  }

  /** Builds a new plan, then replaces the old one in one step. */
  #replanAll(): readonly HostChange[] {
    const plan = new Plan();
    for (const node of this.#state.nodeNames) {
      const peers = this.#planPeers(node);
      if (peers.length > 0) plan.peersOf.set(node, peers);
      for (const peer of peers) plan.peers.set(peerKey(peer), peer);
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

  #replanPeers(node: NodeName): readonly HostChange[] {
    const plan = this.#plan;
    const before = plan.peersOf.get(node) ?? [];
    const after = this.#planPeers(node);
    if (after.length === 0) plan.peersOf.delete(node);
    else plan.peersOf.set(node, after);
    const gone = before.filter((old) => !after.some((peer) => peerKey(peer) === peerKey(old)));
    const put = after.filter((peer) => !before.some((old) => samePeer(old, peer)));
    const left = gone.map((peer) => ({ peer, other: this.#peerWith(peerKey(peer)) }));
    const now = [...put, ...left.flatMap(({ other }) => other ?? [])];
    for (const peer of gone) plan.peers.delete(peerKey(peer));
    for (const peer of now) plan.peers.set(peerKey(peer), peer);
    return [
      ...now.map((peer): HostChange => ({ kind: 'put-peer', peer })),
      ...left.flatMap(({ peer, other }): HostChange[] => (other === undefined ? [{ kind: 'delete-peer', peer }] : [])),
    ];
  }

  /** Another node may have the tunnel address of one that is removed: the record is the last that goes. */
  #peerWith(key: string): TunnelPeer | undefined {
    return [...this.#plan.peersOf.values()].flat().find((peer) => peerKey(peer) === key);
  }
}
