import { BLOCK_SIZES } from '../../../model/ip-pool.ts';
import { bitsOf, type Family } from '../../../net/address.ts';

/** Sizes with which a cluster fits without borrowing. */
export interface Advice {
  readonly blockSize: number;
  readonly blocksPerNode: number;
  /** Prefix length of the smallest pool that holds all of it. */
  readonly poolPrefix: number;
}

/** Each block of a node is a route on all others. */
const MOST_BLOCKS_PER_NODE = 4;

/** The block size that wastes least with few blocks per node, and the smallest pool for it; undefined when none is large enough. */
export function adviseSize(
  family: Family,
  { nodes, addressesPerNode }: { readonly nodes: number; readonly addressesPerNode: number },
): Advice | undefined {
  const { smallest, largest } = BLOCK_SIZES[family];
  const bits = bitsOf(family);
  const candidates = Array.from({ length: largest - smallest + 1 }, (_, index) => smallest + index)
    .map((blockSize) => {
      const size = 2 ** (bits - blockSize);
      const blocksPerNode = Math.max(1, Math.ceil(addressesPerNode / size));
      return { blockSize, blocksPerNode, addresses: nodes * blocksPerNode * size };
    })
    .filter(({ blocksPerNode }) => blocksPerNode <= MOST_BLOCKS_PER_NODE)
    .sort((a, b) => (a.addresses === b.addresses ? a.blocksPerNode - b.blocksPerNode : a.addresses - b.addresses));
  const [best] = candidates;
  if (best === undefined) return undefined;
  const { blockSize, blocksPerNode, addresses } = best;
  const poolPrefix = bits - Math.ceil(Math.log2(addresses));
  return poolPrefix < 0 ? undefined : { blockSize, blocksPerNode, poolPrefix };
}
