import { isReserved } from '../../../ipam/free-ordinals.ts';
import type { Pool } from '../../../ipam/choose-pools.ts';
import { placeOf, placesIn } from '../../../ipam/free-cidrs.ts';
import type { IpBlock } from '../../../model/ip-block.ts';
import { isTunnelAddress } from '../../../model/tunnel-attachment.ts';
import { bitsOf, formatAddress } from '../../../net/address.ts';
import { addressAt, type Cidr, cidrContains, cidrSize, formatCidr, parseCidr } from '../../../net/cidr.ts';
import { nameHolder } from './describe-holder.ts';

/** States of an address of a claimed block. */
export const STATES = ['free', 'own', 'borrowed', 'tunnel', 'preallocated', 'reserved', 'leaked'] as const;
export type State = (typeof STATES)[number];

export interface MappedAddress {
  readonly address: string;
  readonly state: State;
  /** The pod, container or tunnel device that holds it. */
  readonly holder: string | undefined;
}

export interface MappedBlock {
  readonly cidr: string;
  /** The owner; undefined when the block has none. */
  readonly node: string | undefined;
  /** Place among the blocks of the pool, from 0; undefined when it is of another size than the pool's blocks. */
  readonly place: bigint | undefined;
  readonly addresses: readonly MappedAddress[];
}

export interface MappedPool {
  readonly name: string;
  readonly cidr: string;
  readonly blockSize: number;
  /** Number of blocks that it has, claimed or not. */
  readonly places: bigint;
  /** The claimed ones, in order. */
  readonly blocks: readonly MappedBlock[];
}

export interface MapScene {
  readonly pools: readonly Pool[];
  readonly blocks: readonly IpBlock[];
  readonly reserved: readonly Cidr[];
  /** Addresses that look leaked. */
  readonly leaked: ReadonlySet<string>;
  /** Only blocks that the node owns or holds addresses of. */
  readonly node: string | undefined;
}

/** Returns every address of every claimed block, pool by pool. */
export function mapPools(scene: MapScene): readonly MappedPool[] {
  return scene.pools.map((pool) => ({
    name: pool.name,
    cidr: formatCidr(pool.cidr),
    blockSize: pool.stored.value.spec.blockSize,
    places: placesIn(pool),
    blocks: scene.blocks
      .filter((block) => cidrContains(pool.cidr, block.cidr) && concerns(block, scene.node))
      .map((block) => mapBlock(scene, pool, block)),
  }));
}

/** The block at a place of the pool. */
export function blockAt({ cidr, blockSize }: MappedPool, place: bigint): string {
  const { base } = parseCidr(cidr);
  const value = base.value + (place << BigInt(bitsOf(base.family) - blockSize));
  return formatCidr({ base: { family: base.family, value }, prefixBits: blockSize });
}

function concerns({ node: owner, slots }: IpBlock, node: string | undefined): boolean {
  return node === undefined || owner === node || [...slots.values()].some((holder) => holder.node === node);
}

function mapBlock(scene: MapScene, pool: Pool, block: IpBlock): MappedBlock {
  const size = Number(cidrSize(block.cidr));
  return {
    cidr: formatCidr(block.cidr),
    node: block.node,
    place: placeOf(pool, block.cidr),
    addresses: Array.from({ length: size }, (_, ordinal) => mapAddress(scene, block, ordinal)),
  };
}

function mapAddress({ reserved, leaked }: MapScene, block: IpBlock, ordinal: number): MappedAddress {
  const address = formatAddress(addressAt(block.cidr, ordinal));
  const holder = block.slots.get(ordinal);
  if (holder === undefined) {
    const state = block.preallocated.has(ordinal)
      ? 'preallocated'
      : isReserved(block, ordinal, reserved)
        ? 'reserved'
        : 'free';
    return { address, state, holder: undefined };
  }
  const state = leaked.has(address)
    ? 'leaked'
    : isTunnelAddress(holder)
      ? 'tunnel'
      : holder.node === block.node
        ? 'own'
        : 'borrowed';
  return { address, state, holder: `${nameHolder(holder)} on node ${holder.node}` };
}
