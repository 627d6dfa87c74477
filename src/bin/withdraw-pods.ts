import { LinuxFlowTable } from '../dataplane/linux/linux-flow-table.ts';
import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import type { FlowTable } from '../dataplane/flow-table.ts';
import type { LeftBehind } from '../cni/pod-isolation.ts';
import type { PolicyFilter } from '../dataplane/policy-filter.ts';
import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';

export interface WithdrawingOptions {
  /** @throws kernel/failed */
  readonly openFilter?: () => Pick<PolicyFilter, 'withdraw'> & Disposable;
  /** @throws kernel/failed */
  readonly openFlowTable?: () => Pick<FlowTable, 'endAll'> & Disposable;
}

/** Takes what pods left out of the policies that the kernel has, and ends flows: the next ones inherit nothing. @throws kernel/failed */
export async function withdrawPods(
  left: LeftBehind,
  signal: AbortSignal,
  { openFilter = () => NftPolicyFilter.open(), openFlowTable = () => LinuxFlowTable.open() }: WithdrawingOptions = {},
): Promise<void> {
  using filter = openFilter();
  await filter.withdraw(POLICY_TABLE, left, signal);
  if (left.flowsOf.length === 0) return;
  using flows = openFlowTable();
  await flows.endAll(left.flowsOf);
}
