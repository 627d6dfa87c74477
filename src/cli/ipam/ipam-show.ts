import { NetplugError } from '../../base/errors.ts';
import { tryParseAddress } from '../../net/address.ts';
import { renderAddress, reportAddress } from './address-report.ts';
import { withStore } from '../connection.ts';
import type { Output } from '../common-options.ts';
import { percentFree, type PoolUsage, poolUsage } from './pool-usage.ts';
import type { Context, Status } from '../ports.ts';
import { counted, renderTable } from '../table.ts';

export interface ShowOptions {
  readonly ip: string | undefined;
  readonly withBlocks: boolean;
  readonly output: Output;
}

/** Shows how full the pools are, or who holds one address. */
export async function ipamShow(context: Context, { ip, withBlocks, output }: ShowOptions): Promise<Status> {
  const { io, signal } = context;
  const address = ip === undefined ? undefined : tryParseAddress(ip);
  if (ip !== undefined && address === undefined) {
    throw new NetplugError('cli/usage', `Cannot read "${ip}" as an IP address`, {
      hint: 'Write one address, such as --ip 10.0.0.7',
    });
  }
  return withStore(context, 'read', async (store) => {
    const pools = await store.listResources('IPPool', signal);
    const reservations = await store.listResources('IPReservation', signal);
    const blocks = await store.listBlocks(signal);
    for (const problem of [pools, reservations, blocks].flatMap(({ problems }) => problems))
      io.stderr(`warning: ${problem}\n`);
    const stock = {
      pools: pools.resources,
      reservations: reservations.resources,
      blocks: blocks.blocks.map(({ value }) => value),
    };
    if (address !== undefined) {
      const report = reportAddress(stock, address);
      io.stdout(output === 'json' ? jsonText(report) : renderAddress(report));
    } else {
      const usage = poolUsage(stock);
      io.stdout(output === 'json' ? jsonText({ pools: usage.map(usageDocument) }) : renderUsage(usage, withBlocks));
    }
    return 0;
  });
}

function renderUsage(usage: readonly PoolUsage[], withBlocks: boolean): string {
  if (!withBlocks) {
    const rows = usage.map((pool) => [pool.name ?? '(no pool)', pool.cidr ?? '', ...numbers(pool)]);
    return renderTable(['POOL', 'CIDR', 'ADDRESSES', 'HELD', 'STOCK', 'RESERVED', 'FREE', 'FREE%'], rows);
  }
  const rows = usage.flatMap((pool) => [
    ['pool', pool.name ?? '(no pool)', pool.cidr ?? '', '', ...numbers(pool), ''],
    ...pool.blocks.map(({ cidr, node, addresses, held, stock, free, borrowed }) => {
      const percent = String(percentFree({ free: BigInt(free), addresses }));
      return [
        'block',
        '',
        cidr,
        node ?? '(no node)',
        String(addresses),
        String(held),
        String(stock),
        '',
        String(free),
        percent,
        String(borrowed),
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
    'STOCK',
    'RESERVED',
    'FREE',
    'FREE%',
    'BORROWED',
  ];
  const blocks = usage.reduce((sum, pool) => sum + pool.blocks.length, 0);
  return `${renderTable(titles, rows)}${counted(blocks, 'block')}\n`;
}

function numbers(pool: PoolUsage): string[] {
  return [...[pool.addresses, pool.held, pool.stock, pool.reserved, pool.free].map(String), String(percentFree(pool))];
}

function usageDocument(pool: PoolUsage): object {
  return { ...pool, percentFree: percentFree(pool) };
}

/** Counts beyond what JSON numbers hold exactly become strings. */
function jsonText(document: object): string {
  const exact = (_: string, value: unknown): unknown => {
    if (typeof value !== 'bigint') return value;
    return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
  };
  return `${JSON.stringify(document, exact, 2)}\n`;
}
