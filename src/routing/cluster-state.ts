import { never } from '../base/errors.ts';
import type { ClusterChange, RoutingResource } from '../cache/cluster-view.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { BgpConfiguration } from '../model/bgp-configuration.ts';
import type { BgpPeer } from '../model/bgp-peer.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { cidrContains, type Cidr } from '../net/cidr.ts';
import { type BlockSource, Membership, NOTHING, type Touched } from './membership.ts';
import type { NodeEnds } from './node-ends.ts';
import { PoolModes, type RoutedPool } from './pool-modes.ts';

type Everything = Extract<ClusterChange, { readonly kind: 'all' }>;
/** A resource of which there are few, because users write them. */
type Setting = Exclude<RoutingResource, { readonly kind: 'Node' }>;

/** Indexes what routes need of the cluster, as the watch reported it last. Applies each change atomically. */
export class ClusterState {
  readonly #source: BlockSource;
  readonly #pools = new PoolModes();
  readonly #configurations = new Map<string, BgpConfiguration>();
  readonly #peers = new Map<string, BgpPeer>();
  #members: Membership;
  #listed: readonly RoutedPool[] | undefined;
  #hasSnapshot = false;

  constructor(source: BlockSource) {
    this.#source = source;
    this.#members = new Membership(source);
  }

  /** Reports whether the first snapshot was applied. */
  get hasSnapshot(): boolean {
    return this.#hasSnapshot;
  }

  get pools(): readonly RoutedPool[] {
    this.#listed ??= this.#pools.list();
    return this.#listed;
  }

  get nodes(): readonly Node[] {
    return this.#members.nodes;
  }

  get nodeNames(): readonly NodeName[] {
    return this.#members.nodeNames;
  }

  get bgpConfigurations(): readonly BgpConfiguration[] {
    return [...this.#configurations.values()];
  }

  get bgpPeers(): readonly BgpPeer[] {
    return [...this.#peers.values()];
  }

  get blocks(): ReadonlyMap<string, RoutedBlock> {
    return this.#members.blocks;
  }

  findNode(name: NodeName): Node | undefined {
    return this.#members.findNode(name);
  }

  endsOf(name: NodeName): NodeEnds {
    return this.#members.endsOf(name);
  }

  blocksOf(name: NodeName): readonly RoutedBlock[] {
    return this.#members.blocksOf(name);
  }

  poolAround(cidr: Cidr): RoutedPool | undefined {
    return this.pools.find((pool) => cidrContains(pool.cidr, cidr));
  }

  /** Applies one change and returns what it affects. `nowMs` is of the monotonic clock. */
  apply(change: ClusterChange, nowMs: number): Touched {
    switch (change.kind) {
      case 'all':
        return this.#applySnapshot(change, nowMs);
      case 'resource':
        if (change.resource !== undefined) return this.#put(change.resource, nowMs);
        return change.problem === undefined ? this.#delete(change.which) : NOTHING;
      case 'block':
        return change.problem === undefined ? this.#members.putClaim(change.cidr, change.block) : NOTHING;
      default:
        return never(change);
    }
  }

  /** Expires replaced modes of pools. Reports whether any expired. */
  expire(nowMs: number): boolean {
    const isAny = this.#pools.expire(nowMs);
    if (isAny) this.#listed = undefined;
    return isAny;
  }

  /** Builds a new index of nodes and blocks, then replaces the old one in one step. */
  #applySnapshot({ resources, blocks, problems }: Everything, nowMs: number): Touched {
    // With malformed records in the snapshot nothing is deleted: a missing record may be one of those.
    const isComplete = problems.length === 0;
    const members = isComplete ? new Membership(this.#source) : this.#members.copy();
    const settings: Setting[] = [];
    for (const resource of resources) {
      // A node is registered under the name of its resource.
      if (resource.kind === 'Node') members.putNode(resource.metadata.name as NodeName, resource);
      else settings.push(resource);
    }
    for (const block of blocks) members.putClaim(block.cidr, block);
    this.#members = members;
    if (isComplete) this.#deleteMissing(settings);
    for (const setting of settings) this.#put(setting, nowMs);
    this.#hasSnapshot = true;
    return 'all';
  }

  #deleteMissing(settings: readonly Setting[]): void {
    const there = new Set(settings.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
    const gone = (kind: Setting['kind'], names: Iterable<string>): void => {
      for (const name of names) if (!there.has(`${kind}/${name}`)) this.#delete({ kind, name });
    };
    gone('IPPool', this.#pools.names());
    gone('BGPConfiguration', this.#configurations.keys());
    gone('BGPPeer', this.#peers.keys());
  }

  #put(resource: RoutingResource, nowMs: number): Touched {
    const { name } = resource.metadata;
    switch (resource.kind) {
      case 'IPPool':
        this.#pools.put(resource, nowMs);
        this.#listed = undefined;
        return 'all';
      case 'Node':
        return this.#members.putNode(name as NodeName, resource); // as above
      case 'BGPConfiguration':
        this.#configurations.set(name, resource);
        return NOTHING;
      case 'BGPPeer':
        this.#peers.set(name, resource);
        return NOTHING;
      default:
        return never(resource);
    }
  }

  #delete({ kind, name }: { readonly kind: RoutingResource['kind']; readonly name: string }): Touched {
    switch (kind) {
      case 'IPPool':
        this.#pools.delete(name);
        this.#listed = undefined;
        return 'all';
      case 'Node':
        return this.#members.putNode(name as NodeName, undefined); // as above
      case 'BGPConfiguration':
        this.#configurations.delete(name);
        return NOTHING;
      case 'BGPPeer':
        this.#peers.delete(name);
        return NOTHING;
      default:
        return never(kind);
    }
  }
}

/** Returns the malformed records that the change leaves out, a sentence each. */
export function problemsIn(change: ClusterChange): readonly string[] {
  if (change.kind === 'all') return change.problems;
  return change.problem === undefined ? [] : [change.problem];
}
