import type { Family } from '../../net/address.ts';

/** What the kernel says of its table of tracked flows. Counters are since the boot. */
export interface FlowTableSize {
  readonly entries: number;
  readonly most: number;
  /** Packets that were dropped because no flow could be added; undefined where the kernel does not count them. */
  readonly dropped: number | undefined;
}

/** What the kernel says of its table of neighbours of a family, which all network namespaces share. */
export interface NeighbourTableSize {
  readonly family: Family;
  /** Without those that the kernel does not count against the limit. */
  readonly entries: number;
  readonly most: number;
  /** How often it looked for entries to remove before their time. */
  readonly collections: number;
  /** How often it had no room. */
  readonly refused: number;
}

export interface KernelTables {
  /** Undefined where flows are not tracked. */
  readonly flows: FlowTableSize | undefined;
  readonly neighbours: readonly NeighbourTableSize[];
}

export const FULL_TABLE_SEVERITIES = {
  'kernel/flows-full': 'error',
  'kernel/flows-nearly-full': 'warning',
  'kernel/neighbours-full': 'error',
  'kernel/neighbours-nearly-full': 'warning',
} as const;

export interface FullTable {
  readonly code: keyof typeof FULL_TABLE_SEVERITIES;
  readonly found: string;
  readonly remedy: string;
  readonly command: string;
}

/** Shares of a table. */
const [NEARLY_FULL, FULL] = [0.8, 0.95];
const PERMANENT = 'Raise it now, and in /etc/sysctl.d to make that permanent';

/**
 * Returns tables of the kernel that have no room, or soon have none. Counters that have grown since an earlier look say that there was
 * none at some time between: a burst is over sooner than the next look. Pure.
 */
export function findFullTables(now: KernelTables, before: KernelTables | undefined): readonly FullTable[] {
  return [
    ...(now.flows === undefined ? [] : judgeFlows(now.flows, before?.flows)),
    ...now.neighbours.flatMap((table) =>
      judgeNeighbours(
        table,
        before === undefined ? undefined : before.neighbours.find(({ family }) => family === table.family),
      ),
    ),
  ];
}

function judgeFlows(now: FlowTableSize, before: FlowTableSize | undefined): readonly FullTable[] {
  const { entries, most } = now;
  const share = entries / most;
  if (!(share >= NEARLY_FULL)) return [];
  const dropped = grown(now.dropped, before?.dropped);
  const isFull = share >= FULL || dropped > 0;
  return [
    {
      code: isFull ? 'kernel/flows-full' : 'kernel/flows-nearly-full',
      found:
        `the kernel tracks ${String(entries)} of at most ${String(most)} flows (nf_conntrack_max)` +
        (dropped > 0 ? `, and has dropped ${String(dropped)} packets of new ones` : ''),
      remedy: `${PERMANENT}. kube-proxy sets it when it starts, from conntrack.maxPerCore and conntrack.min`,
      command: `sysctl -w net/netfilter/nf_conntrack_max=${String(most * 2)}`,
    },
  ];
}

function judgeNeighbours(now: NeighbourTableSize, before: NeighbourTableSize | undefined): readonly FullTable[] {
  const { family, entries, most } = now;
  const refused = before === undefined ? 0 : grown(now.refused, before.refused);
  // The kernel removes entries early when half of the table is used: before, many of those that it counts are not limited.
  const share = now.collections > 0 ? entries / most : 0;
  if (!(share >= NEARLY_FULL) && refused === 0) return [];
  const folder = `net/ipv${String(family)}/neigh/default`;
  return [
    {
      code: share >= FULL || refused > 0 ? 'kernel/neighbours-full' : 'kernel/neighbours-nearly-full',
      found:
        `the kernel has ${String(entries)} IPv${String(family)} neighbours of at most ${String(most)} (gc_thresh3)` +
        (refused > 0 ? `, and has refused ${String(refused)} more` : ''),
      remedy: PERMANENT,
      command: `sysctl -w ${folder}/gc_thresh3=${String(most * 4)} ${folder}/gc_thresh2=${String(most * 2)}`,
    },
  ];
}

/** Returns by how much a counter has grown. */
function grown(now: number | undefined, before: number | undefined): number {
  return now === undefined || before === undefined ? 0 : Math.max(0, now - before);
}

/** Names of the statistics of neighbours below /proc/net/stat. */
export const NEIGHBOUR_STATISTICS: Readonly<Record<Family, string>> = { 4: 'arp_cache', 6: 'ndisc_cache' };

/** Returns the columns of statistics of the kernel, in hexadecimal digits and a line for each processor: totals by name. Pure. */
export function readStatistics(text: string): ReadonlyMap<string, number> {
  const [head = '', ...lines] = text.trim().split('\n');
  const rows = lines.map((line) => line.trim().split(/\s+/));
  return new Map(
    head
      .trim()
      .split(/\s+/)
      .map((name, column) => {
        const values = rows.map((row) => Number.parseInt(row[column] ?? '0', 16));
        // Each line has the number of all entries.
        return [name, name === 'entries' ? (values[0] ?? 0) : values.reduce((sum, value) => sum + value, 0)];
      }),
  );
}
