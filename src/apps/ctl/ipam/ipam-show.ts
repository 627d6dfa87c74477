import { renderAddress, reportAddress } from './address-report.ts';
import { renderDocument } from '../render-document.ts';
import { borrowedAddresses, renderBorrowed } from './borrowed-addresses.ts';
import { renderConfiguration } from './ipam-configure.ts';
import { addressIn } from './read-address.ts';
import { type Cluster, readCluster } from './read-cluster.ts';
import { type CoolDown, countCooling } from '../../../model/cool-down.ts';
import { formatCidr } from '../../../net/cidr.ts';
import type { Address } from '../../../net/address.ts';
import { withStore } from '../connection.ts';
import type { Output } from '../common-options.ts';
import { type BlockUsage, percentFree, type PoolUsage, poolUsage } from '../../../ipam/forecast/pool-usage.ts';
import type { Context, Status } from '../ports.ts';
import { counted } from '../../../base/counted.ts';
import { renderTable } from '../table.ts';

/** Subject that is shown. */
export type Shown =
  | { readonly of: 'pools'; readonly withBlocks: boolean }
  | { readonly of: 'address'; readonly ip: string }
  | { readonly of: 'borrowed' }
  | { readonly of: 'configuration' };

export interface ShowOptions {
  readonly what: Shown;
  readonly output: Output;
}

/** Shows the usage of the pools, the holder of an address, borrowed addresses, or the IPAM configuration. */
export async function ipamShow(context: Context, { what, output }: ShowOptions): Promise<Status> {
  const { io, ports } = context;
  const address = what.of === 'address' ? addressIn(what.ip) : undefined;
  return withStore(context, 'read', async (store) => {
    const cluster = await readCluster(context, store);
    const coolDown = { nowMs: ports.clock.now(), seconds: cluster.config.cooldownSeconds };
    const { document, text } = shown(cluster, { what, address, coolDown });
    io.stdout(renderDocument(document, output, text));
    return 0;
  });
}

function shown(
  records: Cluster,
  {
    what,
    address,
    coolDown,
  }: { readonly what: Shown; readonly address: Address | undefined; readonly coolDown: CoolDown },
): { readonly document: object; readonly text: () => string } {
  if (address !== undefined) {
    const report = reportAddress(records, address, coolDown);
    return { document: report, text: () => renderAddress(report) };
  }
  if (what.of === 'borrowed') {
    const borrowed = borrowedAddresses(records.blocks);
    return { document: { borrowed }, text: () => renderBorrowed(borrowed) };
  }
  if (what.of === 'configuration') return { document: records.config, text: () => renderConfiguration(records.config) };
  const usage = poolUsage(records);
  const withBlocks = what.of === 'pools' && what.withBlocks;
  const cooling = new Map(records.blocks.map((block) => [formatCidr(block.cidr), countCooling(block, coolDown)]));
  const pools = usage.map((pool) => ({
    ...pool,
    percentFree: percentFree(pool),
    blocks: pool.blocks.map((block) => ({ ...block, cooling: cooling.get(block.cidr) ?? 0 })),
  }));
  return { document: { pools }, text: () => renderUsage(pools, withBlocks) };
}

/** The free addresses of each block that cool down are counted apart. */
interface ShownUsage extends PoolUsage {
  readonly blocks: readonly (BlockUsage & { readonly cooling: number })[];
}

function renderUsage(usage: readonly ShownUsage[], withBlocks: boolean): string {
  if (!withBlocks) {
    const rows = usage.map((pool) => [pool.name ?? '(no pool)', pool.cidr ?? '', ...numbers(pool)]);
    return renderTable(['POOL', 'CIDR', 'ADDRESSES', 'HELD', 'PREALLOCATED', 'RESERVED', 'FREE', 'FREE%'], rows);
  }
  const rows = usage.flatMap((pool) => [
    ['pool', pool.name ?? '(no pool)', pool.cidr ?? '', '', ...numbers(pool), '', ''],
    ...pool.blocks.map(({ cidr, node, addresses, held, preallocated, free, borrowed, cooling }) => {
      const percent = String(percentFree({ free: BigInt(free), addresses }));
      return [
        'block',
        '',
        cidr,
        node ?? '(no node)',
        String(addresses),
        String(held),
        String(preallocated),
        '',
        String(free),
        percent,
        String(borrowed),
        String(cooling),
      ];
    }),
  ]);
  const titles = [
    'WHAT',
    'POOL',
    'CIDR',
    'NODE',
    'ADDRESSES',
    'HELD',
    'PREALLOCATED',
    'RESERVED',
    'FREE',
    'FREE%',
    'BORROWED',
    'COOLING',
  ];
  const blocks = usage.reduce((sum, pool) => sum + pool.blocks.length, 0);
  return `${renderTable(titles, rows)}${counted(blocks, 'block')}\n`;
}

function numbers(pool: PoolUsage): string[] {
  return [
    ...[pool.addresses, pool.held, pool.preallocated, pool.reserved, pool.free].map(String),
    String(percentFree(pool)),
  ];
}
