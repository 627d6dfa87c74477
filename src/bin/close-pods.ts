import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import type { PolicyFilter } from '../dataplane/policy-filter.ts';
import { closedToAll } from '../policy/ruleset/base-chains.ts';
import type { PodLinkNames } from '../policy/pod-link-names.ts';
import { POLICY_TABLE } from '../policy/ruleset/policy-ruleset.ts';

export interface ClosingOptions {
  /** Whether policies are still to be enforced; always unless set. */
  readonly isOn?: () => boolean;
  /** The pod links of netplug alone unless set. */
  readonly podLinks?: PodLinkNames;
  /** @throws kernel/failed */
  readonly openFilter?: () => Pick<PolicyFilter, 'create' | 'remove'> & Disposable;
}

/**
 * Drops the packets of all pods when the kernel has no policies, as after a reboot. Reports whether they are to be enforced
 * still: an agent that switches them off may have removed the table just before it was made. @throws kernel/failed
 */
export async function closePods(
  signal: AbortSignal,
  { isOn = () => true, podLinks, openFilter = () => NftPolicyFilter.open() }: ClosingOptions = {},
): Promise<boolean> {
  using filter = openFilter();
  if (!(await filter.create(closedToAll(podLinks), signal)) || isOn()) return true;
  await filter.remove(POLICY_TABLE, signal);
  return false;
}
