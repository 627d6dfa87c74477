import type { HostChange, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import type { NodeName } from '../model/names.ts';
import { formatCidr } from '../net/cidr.ts';
import type { ClusterState, Touched } from './cluster-state.ts';
import { type OwnNetwork, planBlockRoutes, planPeers } from './plan-hops.ts';
import { peerKey, sameHop, sameOwnNetwork, samePeer } from './same-network.ts';

/**
 * The routes and tunnel peers this node shall have, kept up change by change: what one change of the cluster does not
 * touch is not computed again.
 */
export class DesiredNetwork {
  readonly #self: NodeName;
  readonly #state: ClusterState;
  #own: OwnNetwork = { addresses: new Map(), tunnels: new Set() };
  readonly #routes = new Map<string, HostRoute>();
  readonly #peers = new Map<string, TunnelPeer>();
  readonly #routesOf = new Map<string, readonly HostRoute[]>();
  readonly #peersOf = new Map<NodeName, readonly TunnelPeer[]>();

  constructor(self: NodeName, state: ClusterState) {
    this.#self = self;
    this.#state = state;
  }

  /** By destination. */
  get routes(): ReadonlyMap<string, HostRoute> {
    return this.#routes;
  }

  /** By `peerKey`. */
  get peers(): ReadonlyMap<string, TunnelPeer> {
    return this.#peers;
  }

  /** Takes in what this node's own side is, which may be as before; returns what must change in the kernel. */
  settle(own: OwnNetwork): readonly HostChange[] {
    if (sameOwnNetwork(this.#own, own)) return [];
    this.#own = own;
    return this.follow('all');
  }

  /** Takes in what the cluster's state says now; returns what must change in the kernel, peers before the routes over them. */
  follow(touched: Touched): readonly HostChange[] {
    const { blocks, nodes } = touched === 'all' ? this.#everything() : this.#withBlocksOf(touched);
    const peers = nodes.flatMap((node) => this.#replanPeers(node));
    const routes = this.#replanRoutes(blocks);
    const isPut = ({ kind }: HostChange): boolean => kind === 'put-peer';
    return [...peers.filter(isPut), ...routes, ...peers.filter((change) => !isPut(change))];
  }

  #everything(): Exclude<Touched, 'all'> {
    return {
      blocks: [...new Set([...this.#routesOf.keys(), ...this.#state.blocks.keys()])],
      nodes: [...new Set([...this.#peersOf.keys(), ...this.#state.nodeNames])],
    };
  }

  #withBlocksOf({ blocks, nodes }: Exclude<Touched, 'all'>): Exclude<Touched, 'all'> {
    const theirs = nodes.flatMap((node) => this.#state.blocksOf(node).map(({ cidr }) => formatCidr(cidr)));
    return { blocks: [...new Set([...blocks, ...theirs])], nodes };
  }

  /** A destination may pass from one block to another in the same step, so what goes is told apart only at the end. */
  #replanRoutes(keys: readonly string[]): readonly HostChange[] {
    const gone = new Map<string, HostRoute>();
    const put: HostRoute[] = [];
    for (const key of keys) {
      for (const route of this.#routesOf.get(key) ?? []) gone.set(formatCidr(route.destination), route);
    }
    for (const key of keys) {
      const block = this.#state.blocks.get(key);
      const routes = block === undefined ? [] : this.#planRoutes(block);
      if (block === undefined) this.#routesOf.delete(key);
      else this.#routesOf.set(key, routes);
      for (const route of routes) {
        const name = formatCidr(route.destination);
        const before = this.#routes.get(name);
        gone.delete(name);
        if (before !== undefined && sameHop(before.hop, route.hop)) continue;
        this.#routes.set(name, route);
        put.push(route);
      }
    }
    for (const name of gone.keys()) this.#routes.delete(name);
    return [
      ...put.map((route): HostChange => ({ kind: 'put-route', route })),
      ...[...gone.values()].map((route): HostChange => ({ kind: 'delete-route', route })),
    ];
  }

  #planRoutes(block: Parameters<typeof planBlockRoutes>[0]): readonly HostRoute[] {
    const endsOf = (node: NodeName): ReturnType<ClusterState['endsOf']> => this.#state.endsOf(node);
    return planBlockRoutes(block, this.#state.poolAround(block.cidr), { self: this.#self, own: this.#own, endsOf });
  }

  #replanPeers(node: NodeName): readonly HostChange[] {
    const before = this.#peersOf.get(node) ?? [];
    const after = node === this.#self ? [] : planPeers(this.#state.endsOf(node), this.#own);
    if (after.length === 0) this.#peersOf.delete(node);
    else this.#peersOf.set(node, after);
    const gone = before.filter((old) => !after.some((peer) => peerKey(peer) === peerKey(old)));
    const put = after.filter((peer) => !before.some((old) => samePeer(old, peer)));
    for (const peer of gone) this.#peers.delete(peerKey(peer));
    for (const peer of put) this.#peers.set(peerKey(peer), peer);
    return [
      ...put.map((peer): HostChange => ({ kind: 'put-peer', peer })),
      ...gone.map((peer): HostChange => ({ kind: 'delete-peer', peer })),
    ];
  }
}
