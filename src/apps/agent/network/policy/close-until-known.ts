import type { FilterTable } from '../../../../dataplane/policy-filter.ts';
import { closedInterfaces, closedTable, closesUnknown } from '../../../../policy/ruleset/base-chains.ts';
import { enforcesHosts, serverSets } from '../../../../policy/ruleset/host-chains.ts';
import { POLICY_TABLE } from '../../../../policy/ruleset/policy-ruleset.ts';
import type { EnforcementPorts } from './enforcement-ports.ts';

interface PodsToClose {
  /** Returns a table that closes every pod; undefined when only those of the interfaces are to be closed. */
  readonly all: (() => FilterTable) | undefined;
  readonly interfaces: readonly string[];
}

/**
 * Closes pods whose policies are not known yet, unless the kernel has what an earlier process knew. That one may have known other
 * servers of the datastore, and its host endpoints would keep the node from reading. Reports whether the kernel closes every pod
 * that it does not know.
 * @throws kernel/failed
 */
export async function closeUntilKnown(
  { policyFilter, servers }: Pick<EnforcementPorts, 'policyFilter' | 'servers'>,
  { all, interfaces }: PodsToClose,
  options: { readonly signal: AbortSignal; readonly reread: boolean },
): Promise<boolean> {
  const ids = await policyFilter().ruleIds(POLICY_TABLE, options.signal);
  if (enforcesHosts(ids)) await policyFilter().extend(POLICY_TABLE, serverSets(servers()), options.signal);
  if (closesUnknown(ids)) return true;
  const table = all?.() ?? closedTable(new Set([...closedInterfaces(ids), ...interfaces]));
  await policyFilter().apply(table, options);
  return all !== undefined;
}
