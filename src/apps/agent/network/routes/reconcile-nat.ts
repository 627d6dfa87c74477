import type { FilterChange, TableFilter } from '../../../../dataplane/policy-filter.ts';
import { type NatInput, renderNat } from '../../../../routing/nat-table.ts';

/** Brings the table of address translation to the desired state. Creates none on a host where nothing is translated. */
export async function reconcileNat(filter: TableFilter, input: NatInput, signal: AbortSignal): Promise<FilterChange> {
  const table = renderNat(input);
  if (table.isIdle && !(await filter.has(table.name, signal))) return { chains: 0, sets: 0, elements: 0 };
  return filter.apply(table, { signal, reread: true });
}
