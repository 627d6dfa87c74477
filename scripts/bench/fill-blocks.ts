// Addresses taken in the datastore of netplug: blocks of a node, full of pods that are not there.
import { takeSlot } from '../../test/support/block-edits.ts';
import { randomUUID } from 'node:crypto';
import type { Change, Stored } from '../../src/datastore/allocation-store.ts';
import { type Allocation, emptyBlock, type IpBlock } from '../../src/model/ip-block.ts';
import type { IpPool } from '../../src/model/ip-pool.ts';
import { handleOf, type NodeName } from '../../src/model/names.ts';
import { addressAt, type Cidr, cidrAround, cidrSize, formatCidr, parseCidr } from '../../src/net/cidr.ts';
import type { TestNode } from '../../test/support/node.ts';
import { nodeName } from '../../test/support/fixtures.ts';
import { ETCD, inside, openStoreOn } from './inside.ts';

const DEADLINE_MS = 60_000;
const BLOCKS_PER_COMMIT = 16;

export interface Filling {
  readonly owner: string;
  /** How many addresses to hold in total. */
  readonly count: number;
}

/** Takes what is missing, in blocks of its own from the end of the pool. */
export async function fillBlocks(node: TestNode, { owner, count }: Filling): Promise<void> {
  await inside(node, async () => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    await using store = openStoreOn(ETCD);
    const { pools, owned } = await store.readNodeView(nodeName(owner), undefined, signal);
    const pool = pools[0];
    if (pool === undefined) throw new Error('no pool');
    const whole = parseCidr(pool.value.spec.cidr);
    const claims = await store.listClaims([whole], signal);
    const claimed = new Set(claims.map(({ cidr }) => formatCidr(cidr)));
    const free = blocksFromTheEnd(whole, pool.value.spec.blockSize).filter((cidr) => !claimed.has(formatCidr(cidr)));
    const taken = owned.reduce((sum, { value }) => sum + value.slots.size, 0);
    const changes = fullBlocks(free, { owner: nodeName(owner), count: count - taken, pool });
    for (let from = 0; from < changes.length; from += BLOCKS_PER_COMMIT) {
      const outcome = await store.commit(changes.slice(from, from + BLOCKS_PER_COMMIT), signal);
      if (outcome !== 'committed') throw new Error('another writer has claimed a block meanwhile');
    }
  });
}

function blocksFromTheEnd(pool: Cidr, blockSize: number): Cidr[] {
  const size = cidrSize(cidrAround(pool.base, blockSize));
  const blocks = Number(cidrSize(pool) / size);
  return Array.from({ length: blocks }, (_, index) =>
    cidrAround(addressAt(pool, (blocks - 1 - index) * Number(size)), blockSize),
  );
}

function fullBlocks(
  free: readonly Cidr[],
  { owner, count, pool }: { owner: NodeName; count: number; pool: Stored<IpPool> },
): Change[] {
  const changes: Change[] = [];
  for (let left = count; left > 0;) {
    const cidr = free[changes.length];
    if (cidr === undefined) throw new Error('the pool is too small');
    const taken = Math.min(left, Number(cidrSize(cidr)));
    changes.push({ kind: 'create-block', block: blockWith(emptyBlock(cidr, owner), taken, owner), pool });
    left -= taken;
  }
  return changes;
}

function blockWith(empty: IpBlock, taken: number, node: NodeName): IpBlock {
  let block = empty;
  for (let ordinal = 0; ordinal < taken; ordinal += 1) block = takeSlot(block, ordinal, allocationOn(node));
  return block;
}

function allocationOn(node: NodeName): Allocation {
  const id = randomUUID();
  const attachment = { network: 'k8s-pod-network', containerId: `fill-${id}`, ifName: 'eth0' };
  return {
    ...attachment,
    id,
    handle: handleOf(attachment),
    node,
    namespace: 'default',
    pod: `fill-${id}`,
    at: new Date().toISOString(),
    chosenBy: 'node-selector',
    considered: ['pods: used'],
  };
}
