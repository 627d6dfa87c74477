import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HostNetwork } from '../../dataplane/host-network.ts';
import { FAMILIES, type Family } from '../../net/address.ts';
import { TUNNELS } from '../../routing/tunnels.ts';
import { type KernelTables, NEIGHBOUR_STATISTICS, type NeighbourTableSize, readStatistics } from './kernel-tables.ts';

interface TablePorts {
  readonly procDir: string;
  readonly host: Pick<HostNetwork, 'listPeers' | 'listPodLinks'>;
}

/** Reads how full tables of the kernel are. Outside of the first network namespace the kernel does not say it of neighbours. */
export async function readKernelTables({ procDir, host }: TablePorts): Promise<KernelTables> {
  const [entries, most] = await Promise.all(
    ['nf_conntrack_count', 'nf_conntrack_max'].map(async (name) =>
      readNumber(join(procDir, 'sys/net/netfilter', name)),
    ),
  );
  const statistics = readStatistics(await readOrNone(join(procDir, 'net/stat/nf_conntrack')));
  const neighbours: NeighbourTableSize[] = [];
  for (const family of FAMILIES) {
    const table = await readNeighbours({ procDir, host }, family);
    if (table !== undefined) neighbours.push(table);
  }
  const dropped = statistics.get('drop');
  const refused = statistics.get('insert_failed') ?? 0;
  return {
    flows:
      entries === undefined || most === undefined || most === 0
        ? undefined
        : { entries, most, dropped: dropped === undefined ? undefined : dropped + refused },
    neighbours,
  };
}

async function readNeighbours({ procDir, host }: TablePorts, family: Family): Promise<NeighbourTableSize | undefined> {
  const most = await readNumber(join(procDir, `sys/net/ipv${String(family)}/neigh/default/gc_thresh3`));
  const statistics = readStatistics(await readOrNone(join(procDir, 'net/stat', NEIGHBOUR_STATISTICS[family])));
  const entries = statistics.get('entries');
  if (most === undefined || most === 0 || entries === undefined) return undefined;
  // The kernel counts permanent ones and does not limit them: one for each other node, and in each pod that of its gateway.
  const peers = await host.listPeers(TUNNELS[family === 4 ? 'vxlan4' : 'vxlan6'].device).catch(() => []);
  const pods = (await host.listPodLinks().catch(() => [])).filter(({ addresses }) =>
    addresses.some((address) => address.family === family),
  );
  return {
    family,
    most,
    entries: Math.max(0, entries - peers.length - pods.length),
    collections: statistics.get('forced_gc_runs') ?? 0,
    refused: statistics.get('table_fulls') ?? 0,
  };
}

async function readNumber(path: string): Promise<number | undefined> {
  const text = (await readOrNone(path)).trim();
  return /^\d+$/.test(text) ? Number(text) : undefined;
}

async function readOrNone(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
