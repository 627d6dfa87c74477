import { type FilterTable, hasChanged, type TableFilter } from '../../../dataplane/policy-filter.ts';

/** Writes the table, which is the same as long as the process runs: whatever else was there is of another program. */
export async function reconcilePodFilter(
  filter: Pick<TableFilter, 'apply'>,
  table: FilterTable,
  signal: AbortSignal,
): Promise<'repaired' | void> {
  if (hasChanged(await filter.apply(table, { signal, reread: true }))) return 'repaired';
}
