import { NftPolicyFilter } from '../dataplane/linux/nft-policy-filter.ts';
import { closedToAll } from '../policy/ruleset/base-chains.ts';

/** Drops the packets of all pods when the kernel has no policies, as after a reboot. @throws kernel/failed */
export async function closePods(signal: AbortSignal): Promise<void> {
  using filter = NftPolicyFilter.open();
  await filter.create(closedToAll(), signal);
}
