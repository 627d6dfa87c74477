import { counted } from '../base/counted.ts';
import type { HostChange, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import { describeRange, findOverlap, type UsedRange } from '../model/used-range.ts';
import { type Cidr, cidrsOverlap, formatCidr, sameCidr } from '../net/cidr.ts';
import type { ClusterState } from './cluster-state.ts';
import type { Touched } from './membership.ts';
import { type OwnNetwork, planBlockRoutes, planPeers } from './plan-hops.ts';
import { diffTables } from './diff-tables.ts';
import type { RoutedPool } from './pool-modes.ts';
import { peerKey, routeKey, sameHop, sameOwnNetwork, samePeer } from './same-network.ts';
import { TUNNELS } from './tunnels.ts';

/** Numbers of routes by the way in which packets leave the node. */
export type RouteKinds = Readonly<Record<'blackhole' | 'direct' | 'tunnelled', number>>;

const TUNNEL_DEVICES: readonly string[] = Object.values(TUNNELS).map(({ device }) => device);

/** A block over which no route of the node may lead. */
export interface RefusedBlock {
  readonly cidr: Cidr;
  readonly pool: string | undefined;
  /** What the node itself needs there. */
  readonly over: UsedRange;
}

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
  /** By block. */
  readonly refused = new Map<string, RefusedBlock>();
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
  #protected: readonly UsedRange[] = [];
  #protectedOf = new WeakMap<RoutedPool, readonly UsedRange[]>();
  #plan = new Plan();
  #refusedBlocks: readonly RefusedBlock[] | undefined;

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

  /** The blocks to which no route leads, because the node itself needs addresses of theirs. The same list until it changes. */
  get refusedBlocks(): readonly RefusedBlock[] {
    this.#refusedBlocks ??= [...this.#plan.refused.values()];
    return this.#refusedBlocks;
  }

  /** The same list until it changes. */
  get protectedRanges(): readonly UsedRange[] {
    return this.#protected;
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

  /** Sets the ranges over which no route may lead. Returns the changes for the kernel. */
  setProtected(ranges: readonly UsedRange[]): readonly HostChange[] {
    const isSame = (range: UsedRange, at: number): boolean => {
      const before = this.#protected[at];
      return before !== undefined && before.what === range.what && sameCidr(before.cidr, range.cidr);
    };
    if (ranges.length === this.#protected.length && ranges.every(isSame)) return [];
    this.#protected = ranges;
    this.#protectedOf = new WeakMap();
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
      const routes = this.#planRoutes(key, block, plan);
      plan.routesOf.set(key, routes);
      for (const route of routes) plan.putRoute(routeKey(route), route);
    }
    const changes = diffTables(plan, this.#plan);
    this.#plan = plan;
    this.#refusedBlocks = undefined;
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
      if (plan.refused.delete(key)) this.#refusedBlocks = undefined;
      const routes = block === undefined ? [] : this.#planRoutes(key, block, plan);
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

  /** Returns no routes of a block that has an address in common with a protected range, and records it in the plan. */
  #planRoutes(key: string, block: RoutedBlock, { refused }: Plan): readonly HostRoute[] {
    const pool = this.#state.poolAround(block.cidr);
    const over = this.#protectedIn(block.cidr, pool);
    if (over !== undefined) {
      this.#refusedBlocks = undefined;
      refused.set(key, { cidr: block.cidr, pool: pool?.pool.metadata.name, over });
      return [];
    }
    const endsOf = (node: NodeName): ReturnType<ClusterState['endsOf']> => this.#state.endsOf(node);
    return planBlockRoutes(block, pool, { self: this.#self, own: this.#own, endsOf });
  }

  /** Compares the ranges with each pool once, because a cluster has many blocks, and few pools overlap anything. */
  #protectedIn(cidr: Cidr, pool: RoutedPool | undefined): UsedRange | undefined {
    if (pool === undefined) return findOverlap(cidr, this.#protected);
    let inside = this.#protectedOf.get(pool);
    if (inside === undefined) {
      inside = this.#protected.filter((range) => cidrsOverlap(range.cidr, pool.cidr));
      this.#protectedOf.set(pool, inside);
    }
    return inside.length === 0 ? undefined : findOverlap(cidr, inside);
  }

  #planPeers(node: NodeName): readonly TunnelPeer[] {
    return node === this.#self ? [] : planPeers(this.#state.endsOf(node), this.#own);
  }
}

/** Describes the blocks to which no route leads, a sentence for each range that the node needs. */
export function describeRefused(blocks: readonly RefusedBlock[]): readonly string[] {
  const byRange = Map.groupBy(blocks, ({ over }) => describeRange(over));
  return [...byRange].map(([range, [first, ...others]]) => {
    const more = others.length === 0 ? '' : ` and ${counted(others.length, 'more block')}`;
    const pool = first?.pool === undefined ? '' : ` of pool "${first.pool}"`;
    const block = first === undefined ? '' : formatCidr(first.cidr);
    return `routes: no route leads to block ${block}${pool}${more}, which would cut the node off from ${range}; delete the pods with addresses of the pool, then the pool`;
  });
}
