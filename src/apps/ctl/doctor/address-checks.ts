import type { NodeName } from '../../../model/names.ts';
import { FAMILIES } from '../../../net/address.ts';
import { cidrContains, cidrSize, parseCidr } from '../../../net/cidr.ts';
import { percentFree, type PoolUsage, poolUsage } from '../../../ipam/forecast/pool-usage.ts';
import { counted } from '../../../base/counted.ts';
import type { Records } from './records.ts';
import type { Check } from '../../../checks/check.ts';
import { topic } from './topic.ts';

const NEARLY_FULL_PER_CENT = 90;

export interface AddressFacts {
  readonly usage: readonly PoolUsage[];
  /** For each enabled pool, how many blocks it has room for and how many are claimed. */
  readonly blocks: readonly { readonly pool: string; readonly room: bigint; readonly claimed: number }[];
  /** For each node and family, how many blocks the node owns. */
  readonly owned: readonly { readonly node: NodeName; readonly family: number; readonly count: number }[];
  readonly maxBlocksPerNode: number;
}

export const ADDRESS_CHECKS: readonly Check<AddressFacts>[] = [
  {
    id: 'addresses/exhausted',
    severity: 'error',
    expected: 'free addresses in every enabled pool',
    remedy: 'Create another pool; release leaked addresses',
    command: 'netplugctl ipam check',
    judge: ({ usage }) =>
      usage
        .filter(({ name, free }) => name !== undefined && free <= 0n)
        .map(({ name = '', addresses }) => `pool "${name}": none of ${String(addresses)} addresses is free`),
  },
  {
    id: 'addresses/few-left',
    severity: 'warning',
    expected: 'at most 90 % of the addresses of a pool in use',
    remedy: 'Create another pool in time; release leaked addresses',
    command: 'netplugctl ipam show',
    judge: ({ usage }) =>
      usage
        .filter((pool) => pool.name !== undefined && pool.free > 0n && percentFree(pool) < 100 - NEARLY_FULL_PER_CENT)
        .map(
          (pool) => `pool "${pool.name ?? ''}": ${String(pool.free)} of ${String(pool.addresses)} addresses are free`,
        ),
  },
  {
    id: 'addresses/few-blocks-left',
    severity: 'warning',
    expected: 'at most 90 % of the blocks of a pool claimed; beyond that, nodes borrow addresses from each other',
    remedy: 'Create another pool, or one with smaller blocks',
    command: 'netplugctl ipam show --blocks',
    judge: ({ blocks }) =>
      blocks
        .filter(({ room, claimed }) => BigInt(claimed) * 100n > room * BigInt(NEARLY_FULL_PER_CENT))
        .map(({ pool, room, claimed }) => `pool "${pool}": ${String(claimed)} of ${String(room)} blocks are claimed`),
  },
  {
    id: 'addresses/node-at-limit',
    severity: 'warning',
    expected: 'nodes that own fewer blocks than maxBlocksPerNode',
    remedy: 'Raise maxBlocksPerNode of IPAMConfiguration "default", or move pods to other nodes',
    command: 'netplugctl get ipamconfigurations',
    judge: ({ owned, maxBlocksPerNode }) =>
      owned
        .filter(({ count }) => maxBlocksPerNode > 0 && count >= maxBlocksPerNode)
        .map(
          ({ node, family, count }) =>
            `node "${node}" owns ${counted(count, 'block')} of IPv${String(family)}, the maximum`,
        ),
  },
];

export const ADDRESSES = topic({
  area: 'addresses',
  scope: 'cluster',
  needsRecords: true,
  gather: async ({ records }) => addressFacts(await records()),
  measure: ({ usage }) =>
    usage.map((pool) => `${pool.name ?? ''}: ${String(pool.held)} held, ${String(percentFree(pool))} % free`),
  checks: ADDRESS_CHECKS,
});

/** Omits disabled pools, which assign no addresses. */
export function addressFacts({ pools, reservations, blocks, config }: Records): AddressFacts {
  const enabled = pools.filter(({ spec }) => !spec.disabled);
  const owners = [...new Set(blocks.flatMap(({ node }) => node ?? []))].sort();
  return {
    usage: poolUsage({ pools: enabled, reservations, blocks }).filter(({ name }) => name !== undefined),
    blocks: enabled.map(({ metadata, spec }) => {
      const cidr = parseCidr(spec.cidr);
      const inside = blocks.filter((block) => cidrContains(cidr, block.cidr));
      return {
        pool: metadata.name,
        room: cidrSize(cidr) / cidrSize({ ...cidr, prefixBits: spec.blockSize }),
        claimed: inside.length,
      };
    }),
    owned: owners.flatMap((node) =>
      FAMILIES.map((family) => ({
        node,
        family,
        count: blocks.filter((block) => block.node === node && block.cidr.base.family === family).length,
      })),
    ),
    maxBlocksPerNode: config.maxBlocksPerNode,
  };
}
