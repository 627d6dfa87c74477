import type { Allocation } from '../../model/ip-block.ts';
import { isStaticPodUid } from '../../model/pod.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import { isHeldBy, type PodPresence } from './pod-presence.ts';
import type { NodeStanding } from './views.ts';

/** What becomes of a held address: it stays, or is released after a grace period, or at once. */
export type Fate = 'kept' | 'after-grace' | 'at-once';

/** What the orchestrator's API says about the holder of an address at one moment; no pod of that name without `pod`. */
export interface HolderFacts {
  readonly standing: NodeStanding;
  readonly pod: PodPresence | undefined;
}

/**
 * Decides about a held address. Pure. It stays while its pod exists, and while something may run that the API does not know: on a
 * node that is present, of a node that is none of the orchestrator's, or of a static pod or a tunnel device on a node that exists.
 *
 * An address that was asked for must not wait: no other one serves the pod in whose place the next one starts. It goes at once
 * when an administrator has vouched that nothing runs on the node any more. That a Node was deleted does not say so.
 */
export function fateOf(allocation: Allocation, { standing, pod }: HolderFacts): Fate {
  if (standing === 'present' || standing === 'foreign') return 'kept';
  if (isTunnelAddress(allocation)) return standing === 'gone' ? 'after-grace' : 'kept';
  if (isHeldBy(pod, allocation)) return 'kept';
  if (standing === 'gone') return 'after-grace';
  if (isStaticPodUid(allocation.podUid)) return 'kept';
  return isAskedFor(allocation) ? 'at-once' : 'after-grace';
}

/**
 * Reports whether the pod or its runtime has asked for the address, or for a pool, which may have one address only. Not an
 * address that the agent of the node recorded again because a link uses it: something ran there after all.
 */
export function isAskedFor({ chosenBy }: Allocation): boolean {
  return chosenBy === 'pod-annotation' || chosenBy === 'request';
}
