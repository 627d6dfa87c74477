import { OneToMany } from '../base/one-to-many.ts';
import type { RoutedBlock } from '../datastore/follow.ts';
import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import { type Cidr, formatCidr, tryReadCidr } from '../net/cidr.ts';
import { endsOf, NO_ENDS, type NodeEnds, sameEnds } from './node-ends.ts';

/** The source of blocks: the address manager, or the nodes' pod CIDRs (specification, "Authentication", 5). */
export type BlockSource = 'claims' | 'pod-cidrs';

/** The blocks and nodes whose routes a change may affect. */
export type Touched =
  | 'all'
  | {
      readonly blocks: readonly string[];
      readonly nodes: readonly NodeName[];
    };

export const NOTHING: Touched = { blocks: [], nodes: [] };

/** Indexes the nodes of the cluster, and the blocks that they own or borrow addresses of. */
export class Membership {
  readonly #source: BlockSource;
  readonly #nodes = new Map<NodeName, { readonly node: Node; readonly ends: NodeEnds }>();
  readonly #blocks = new Map<string, RoutedBlock>();
  /** Keys of blocks, by node. */
  readonly #blocksOf = new OneToMany<NodeName, string>();

  constructor(source: BlockSource) {
    this.#source = source;
  }

  get nodes(): readonly Node[] {
    return [...this.#nodes.values()].map(({ node }) => node);
  }

  get nodeNames(): readonly NodeName[] {
    return [...this.#nodes.keys()];
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
    return this.#blocksOf.get(name).flatMap((key) => this.#blocks.get(key) ?? []);
  }

  /** Returns an independent copy. */
  copy(): Membership {
    const copy = new Membership(this.#source);
    for (const [name, node] of this.#nodes) copy.#nodes.set(name, node);
    for (const [key, block] of this.#blocks) copy.#setBlock(key, block);
    return copy;
  }

  /** Sets a node; undefined removes it. */
  putNode(name: NodeName, node: Node | undefined): Touched {
    const before = this.endsOf(name);
    const ends = node === undefined ? NO_ENDS : endsOf(node);
    if (node === undefined) this.#nodes.delete(name);
    else this.#nodes.set(name, { node, ends });
    const blocks = this.#source === 'pod-cidrs' ? this.#setPodCidrs(name, node?.spec.podCIDRs ?? []) : [];
    return { blocks, nodes: sameEnds(before, ends) ? [] : [name] };
  }

  /** Sets a block of the address manager; undefined removes it. Does nothing when blocks are pod CIDRs. */
  putClaim(cidr: Cidr, block: RoutedBlock | undefined): Touched {
    if (this.#source === 'pod-cidrs') return NOTHING;
    const key = formatCidr(cidr);
    this.#setBlock(key, block);
    return { blocks: [key], nodes: [] };
  }

  #setPodCidrs(name: NodeName, texts: readonly string[]): readonly string[] {
    const cidrs = texts.flatMap((text) => tryReadCidr(text)?.cidr ?? []);
    const keys = cidrs.map(formatCidr);
    const gone = this.#blocksOf.get(name).filter((key) => !keys.includes(key));
    for (const key of gone) this.#setBlock(key, undefined);
    for (const cidr of cidrs) this.#setBlock(formatCidr(cidr), { cidr, node: name, borrowed: new Map() });
    return [...gone, ...keys];
  }

  #setBlock(key: string, block: RoutedBlock | undefined): void {
    for (const node of nodesOf(this.#blocks.get(key))) this.#blocksOf.delete(node, key);
    if (block === undefined) this.#blocks.delete(key);
    else this.#blocks.set(key, block);
    for (const node of nodesOf(block)) this.#blocksOf.add(node, key);
  }
}

function nodesOf(block: RoutedBlock | undefined): readonly NodeName[] {
  if (block === undefined) return [];
  return [...(block.node === undefined ? [] : [block.node]), ...block.borrowed.keys()];
}
