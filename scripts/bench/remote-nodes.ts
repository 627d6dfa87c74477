// Nodes that exist only as records, with blocks of their own: every agent has routes to them.
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import type { Store } from '../../src/datastore/store.ts';
import { emptyBlock } from '../../src/model/ip-block.ts';
import type { IpPool } from '../../src/model/ip-pool.ts';
import type { Node } from '../../src/model/node.ts';
import { formatAddress } from '../../src/net/address.ts';
import { addressAt, type Cidr, cidrAround, cidrSize, parseCidr } from '../../src/net/cidr.ts';
import { nodeName, nodeOf, poolOf } from '../../test/support/fixtures.ts';

/** So many nodes are there in the measurements. */
export const NODE_COUNTS = [10, 100, 300, 1000];
export const BLOCKS_PER_NODE = 20;
/** Of the nodes themselves; the first ones are for those that are more than records. */
export const UNDERLAY = parseCidr('10.32.0.0/16');
const FIRST_ADDRESS = 256;
/** Gives no address to tunnels, so that none of its blocks is anybody else's. */
const POOL = poolOf('remote', '10.64.0.0/10', { vxlanMode: 'Always', allowedUses: ['Workload'] });
/** Two requirements for each in one transaction. */
const BLOCKS_PER_COMMIT = 60;
/** Blocks that come one by one, behind those that come with their node. */
const FIRST_SINGLE = 40_000;
const DEADLINE_MS = 60_000;

export interface RemoteNodes {
  /** How many there are. */
  readonly size: number;
  /** How many blocks they have together. */
  readonly blocks: number;
  /** Adds what is missing: first the blocks, then the nodes. */
  growTo(size: number): Promise<void>;
  /** How packets reach the blocks of all of them. */
  setMode(vxlanMode: 'Always' | 'CrossSubnet'): Promise<void>;
  /** One of them claims one more block. */
  claim(): { readonly block: Cidr; readonly done: Promise<void> };
}

export async function openRemoteNodes(store: Store): Promise<RemoteNodes> {
  await store.createResource(POOL, AbortSignal.timeout(DEADLINE_MS));
  const { pools } = await store.readNodeView(nodeName('unused'), undefined, AbortSignal.timeout(DEADLINE_MS));
  const pool = pools.find(({ value }) => value.metadata.name === POOL.metadata.name);
  if (pool === undefined) throw new Error('no pool');
  const commit = async (changes: readonly Change[]): Promise<void> => {
    const outcome = await store.commit(changes, AbortSignal.timeout(DEADLINE_MS));
    if (outcome !== 'committed') throw new Error('another writer has claimed a block meanwhile');
  };
  let [size, singles] = [0, 0];
  return {
    get size() {
      return size;
    },
    get blocks() {
      return size * BLOCKS_PER_NODE + singles;
    },
    growTo: async (wanted) => {
      const members = Array.from({ length: wanted - size }, (_, index) => size + index);
      const changes = members.flatMap((member) => blocksOf(member).map((block) => claimOf(block, member, pool)));
      for (let from = 0; from < changes.length; from += BLOCKS_PER_COMMIT)
        await commit(changes.slice(from, from + BLOCKS_PER_COMMIT));
      const signal = AbortSignal.timeout(DEADLINE_MS);
      await Promise.all(members.map(async (member) => store.createResource(memberNode(member), signal)));
      size = wanted;
    },
    setMode: async (vxlanMode) => {
      await store.updateResource({ ...POOL, spec: { ...POOL.spec, vxlanMode } }, AbortSignal.timeout(DEADLINE_MS));
    },
    claim: () => {
      const block = blockAt(FIRST_SINGLE + singles);
      const member = singles % size;
      singles += 1;
      return { block, done: commit([claimOf(block, member, pool)]) };
    },
  };
}

function memberName(member: number): string {
  return `member-${String(member)}`;
}

/** As its agent would have published it. */
function memberNode(member: number): Node {
  const own = `${formatAddress(addressAt(UNDERLAY, FIRST_ADDRESS + member))}/${String(UNDERLAY.prefixBits)}`;
  const hex = member.toString(16).padStart(4, '0');
  const spec = {
    bgp: { ipv4Address: own },
    ipv4VXLANTunnelAddr: formatAddress(blockAt(member * BLOCKS_PER_NODE).base),
    vxlanTunnelMACAddr: `02:00:00:77:${hex.slice(0, 2)}:${hex.slice(2)}`,
  };
  return { ...nodeOf(memberName(member)), spec };
}

function blocksOf(member: number): Cidr[] {
  return Array.from({ length: BLOCKS_PER_NODE }, (_, index) => blockAt(member * BLOCKS_PER_NODE + index));
}

function blockAt(index: number): Cidr {
  const whole = parseCidr(POOL.spec.cidr);
  const { blockSize } = POOL.spec;
  return cidrAround(addressAt(whole, index * Number(cidrSize(cidrAround(whole.base, blockSize)))), blockSize);
}

function claimOf(block: Cidr, member: number, pool: Stored<IpPool>): Change {
  return { kind: 'create-block', block: emptyBlock(block, nodeName(memberName(member))), pool };
}
