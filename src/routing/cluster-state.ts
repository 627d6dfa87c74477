import { never } from '../base/errors.ts';
import type { ClusterChange, RoutedBlock, RoutingResource } from '../datastore/store.ts';
import type { BgpConfiguration } from '../model/bgp-configuration.ts';
import type { BgpPeer } from '../model/bgp-peer.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { cidrContains, type Cidr, formatCidr, tryReadCidr } from '../net/cidr.ts';
import { endsOf, NO_ENDS, type NodeEnds, sameEnds } from './node-ends.ts';
import { PoolModes, type RoutedPool } from './pool-modes.ts';

/** Where blocks come from: the address manager, or the nodes' pod CIDRs (specification, "Authentication", 5). */
export type BlockSource = 'claims' | 'pod-cidrs';

/** What a change may have made different for routes. */
export type Touched =
  | 'all'
  | {
      readonly blocks: readonly string[];
      readonly nodes: readonly NodeName[];
    };

type Everything = Extract<ClusterChange, { readonly kind: 'all' }>;

const NOTHING: Touched = { blocks: [], nodes: [] };

/** What the datastore said last of the whole cluster, as far as routes go. */
export class ClusterState {
  readonly #source: BlockSource;
  readonly #pools = new PoolModes();
  readonly #nodes = new Map<NodeName, { readonly node: Node; readonly ends: NodeEnds }>();
  readonly #configurations = new Map<string, BgpConfiguration>();
  readonly #peers = new Map<string, BgpPeer>();
  readonly #blocks = new Map<string, RoutedBlock>();
  /** Blocks that a node owns or has borrowed from, by their text. */
  readonly #blocksOf = new Map<NodeName, Set<string>>();
  #listed: readonly RoutedPool[] | undefined;
  #isKnown = false;

  constructor(source: BlockSource) {
    this.#source = source;
  }

  /** Whether everything there is has been told. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  get pools(): readonly RoutedPool[] {
    this.#listed ??= this.#pools.list();
    return this.#listed;
  }

  get nodes(): readonly Node[] {
    return [...this.#nodes.values()].map(({ node }) => node);
  }

  get nodeNames(): readonly NodeName[] {
    return [...this.#nodes.keys()];
  }

  get bgpConfigurations(): readonly BgpConfiguration[] {
    return [...this.#configurations.values()];
  }

  get bgpPeers(): readonly BgpPeer[] {
    return [...this.#peers.values()];
  }

  get blocks(): ReadonlyMap<string, RoutedBlock> {
    return this.#blocks;
  }

  findNode(name: NodeName): Node | undefined {
    return this.#nodes.get(name)?.node;
  }

  endsOf(name: NodeName): NodeEnds {
    return this.#nodes.get(name)?.ends ?? NO_ENDS;
  }

  blocksOf(name: NodeName): readonly RoutedBlock[] {
    return [...(this.#blocksOf.get(name) ?? [])].flatMap((key) => this.#blocks.get(key) ?? []);
  }

  poolAround(cidr: Cidr): RoutedPool | undefined {
    return this.pools.find((pool) => cidrContains(pool.cidr, cidr));
  }

  /** `nowMs` is of the monotonic clock. */
  learn(change: ClusterChange, nowMs: number): Touched {
    switch (change.kind) {
      case 'all':
        // What cannot be read stays as it was: nobody has said that it is gone.
        if (change.problems.length === 0) this.#forgetMissing(change);
        for (const resource of change.resources) this.#put(resource, nowMs);
        for (const block of change.blocks) this.#learnBlock(block.cidr, block);
        this.#isKnown = true;
        return 'all';
      case 'resource':
        if (change.resource !== undefined) return this.#put(change.resource, nowMs);
        return change.problem === undefined ? this.#delete(change.which) : NOTHING;
      case 'block':
        return change.problem === undefined ? this.#learnBlock(change.cidr, change.block) : NOTHING;
      default:
        return never(change);
    }
  }

  /** Ends the modes that have lingered for long enough; says whether there were any. */
  expire(nowMs: number): boolean {
    const isAny = this.#pools.expire(nowMs);
    if (isAny) this.#listed = undefined;
    return isAny;
  }

  #forgetMissing({ resources, blocks }: Pick<Everything, 'resources' | 'blocks'>): void {
    const there = new Set(resources.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
    const gone = (kind: RoutingResource['kind'], names: Iterable<string>): void => {
      for (const name of names) if (!there.has(`${kind}/${name}`)) this.#delete({ kind, name });
    };
    gone('IPPool', this.#pools.names());
    gone('Node', this.#nodes.keys());
    gone('BGPConfiguration', this.#configurations.keys());
    gone('BGPPeer', this.#peers.keys());
    if (this.#source === 'pod-cidrs') return;
    const claimed = new Set(blocks.map(({ cidr }) => formatCidr(cidr)));
    for (const key of this.#blocks.keys()) if (!claimed.has(key)) this.#setBlock(key, undefined);
  }

  #put(resource: RoutingResource, nowMs: number): Touched {
    const { name } = resource.metadata;
    switch (resource.kind) {
      case 'IPPool':
        this.#pools.put(resource, nowMs);
        this.#listed = undefined;
        return 'all';
      case 'Node':
        return this.#putNode(name as NodeName, resource); // a node is registered under the name of its resource
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
        return this.#putNode(name as NodeName, undefined); // likewise
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

  #putNode(name: NodeName, node: Node | undefined): Touched {
    const before = this.#nodes.get(name)?.ends ?? NO_ENDS;
    const ends = node === undefined ? NO_ENDS : endsOf(node);
    if (node === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, { node, ends });
    const blocks = this.#source === 'pod-cidrs' ? this.#setPodCidrs(name, node?.spec.podCIDRs ?? []) : [];
    return { blocks, nodes: sameEnds(before, ends) ? [] : [name] };
  }

  #setPodCidrs(name: NodeName, texts: readonly string[]): readonly string[] {
    const cidrs = texts.flatMap((text) => tryReadCidr(text)?.cidr ?? []);
    const keys = cidrs.map(formatCidr);
    const gone = [...(this.#blocksOf.get(name) ?? [])].filter((key) => !keys.includes(key));
    for (const key of gone) this.#setBlock(key, undefined);
    for (const cidr of cidrs) this.#setBlock(formatCidr(cidr), { cidr, node: name, borrowed: new Map() });
    return [...gone, ...keys];
  }

  #learnBlock(cidr: Cidr, block: RoutedBlock | undefined): Touched {
    if (this.#source === 'pod-cidrs') return NOTHING;
    const key = formatCidr(cidr);
    this.#setBlock(key, block);
    return { blocks: [key], nodes: [] };
  }

  #setBlock(key: string, block: RoutedBlock | undefined): void {
    for (const node of concerned(this.#blocks.get(key))) this.#blocksOf.get(node)?.delete(key);
    if (block === undefined) this.#blocks.delete(key);
    else this.#blocks.set(key, block);
    for (const node of concerned(block)) {
      const keys = this.#blocksOf.get(node);
      if (keys === undefined) this.#blocksOf.set(node, new Set([key]));
      else keys.add(key);
    }
  }
}

function concerned(block: RoutedBlock | undefined): readonly NodeName[] {
  if (block === undefined) return [];
  return [...(block.node === undefined ? [] : [block.node]), ...block.borrowed.keys()];
}

/** Records that the change leaves out because they could not be understood, a sentence each. */
export function problemsIn(change: ClusterChange): readonly string[] {
  if (change.kind === 'all') return change.problems;
  return change.problem === undefined ? [] : [change.problem];
}
