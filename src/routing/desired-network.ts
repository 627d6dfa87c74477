import type { HostChange, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import { formatCidr } from '../net/cidr.ts';
import type { ClusterState } from './cluster-state.ts';
import type { Touched } from './membership.ts';
import { type OwnNetwork, planBlockRoutes, planPeers } from './plan-hops.ts';
import { planRepairs } from './plan-repairs.ts';
import { peerKey, routeKey, sameHop, sameOwnNetwork, samePeer } from './same-network.ts';
import { TUNNELS } from './tunnels.ts';

/** How many routes leave the node how. */
export type RouteKinds = Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;

const TUNNEL_DEVICES: readonly string[] = Object.values(TUNNELS).map(({ device }) => device);

/** Routes and peers, and what each is there for. */
class Plan {
  /** By destination. */
  readonly #routes = new Map<string, HostRoute>();
  /** By `peerKey`. */
  readonly peers = new Map<string, TunnelPeer>();
  readonly routesOf = new Map<string, readonly HostRoute[]>();
  readonly peersOf = new Map<NodeName, readonly TunnelPeer[]>();
  /** Counted as routes come and go. */
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
 * The routes and tunnel peers this node shall have, kept up change by change: what one change of the cluster does not
 * touch is not computed again. One change is followed after the other, and nobody sees half of one.
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

  /** Takes in what this node's own side is, which may be as before; returns what must change in the kernel. */
  settle(own: OwnNetwork): readonly HostChange[] {
    if (sameOwnNetwork(this.#own, own)) return [];
    this.#own = own;
    return this.#planAnew();
  }

  /** Takes in what the cluster's state says now; returns what must change in the kernel, peers before the routes over them. */
  follow(touched: Touched): readonly HostChange[] {
    if (touched === 'all') return this.#planAnew();
    const { blocks, nodes } = this.#withBlocksOf(touched);
    const peers = nodes.flatMap((node) => this.#replanPeers(node));
    const routes = this.#replanRoutes(blocks);
    const isPut = ({ kind }: HostChange): boolean => kind === 'put-peer';
    return [...peers.filter(isPut), ...routes, ...peers.filter((change) => !isPut(change))];
  }

  /** Beside the plan there is, which it replaces in one step. */
  #planAnew(): readonly HostChange[] {
    const anew = new Plan();
    for (const node of this.#state.nodeNames) {
      const peers = this.#planPeers(node);
      if (peers.length > 0) anew.peersOf.set(node, peers);
      for (const peer of peers) anew.peers.set(peerKey(peer), peer);
    }
    for (const [key, block] of this.#state.blocks) {
      const routes = this.#planRoutes(block);
      anew.routesOf.set(key, routes);
      for (const route of routes) anew.putRoute(routeKey(route), route);
    }
    const changes = planRepairs(anew, this.#plan);
    this.#plan = anew;
    return changes;
  }

  #withBlocksOf({ blocks, nodes }: Exclude<Touched, 'all'>): Exclude<Touched, 'all'> {
    const theirs = nodes.flatMap((node) => this.#state.blocksOf(node).map(({ cidr }) => formatCidr(cidr)));
    return { blocks: [...new Set([...blocks, ...theirs])], nodes };
  }

  /** A destination may pass from one block to another in the same step, so what goes is told apart only at the end. */
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
    for (const peer of gone) plan.peers.delete(peerKey(peer));
    for (const peer of put) plan.peers.set(peerKey(peer), peer);
    return [
      ...put.map((peer): HostChange => ({ kind: 'put-peer', peer })),
      ...gone.map((peer): HostChange => ({ kind: 'delete-peer', peer })),
    ];
  }
}
