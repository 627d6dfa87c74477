import type { Stored } from '../../../datastore/allocation-store.ts';
import { type HeldAddress, heldAddresses, type IpBlock } from '../../../model/ip-block.ts';
import type { PodFacts } from '../../../model/pod.ts';

/** What the orchestrator says about a pod: `unasked` where annotations of pods have no effect, and so it is not asked. */
export type FoundPod = Pick<PodFacts, 'uid' | 'nodeName'> | 'missing' | 'unasked';

/** The addresses of a pod, and those of pods that had its name before. */
export interface PodHolding {
  readonly own: readonly HeldAddress[];
  readonly earlier: readonly HeldAddress[];
}

/**
 * Returns what is held under the name of a pod. What an earlier pod of the name holds on the node of the pod counts as its own: the
 * node itself takes it over, or releases it. Pure.
 */
export function holdingOf(
  blocks: readonly Stored<IpBlock>[],
  { namespace, name }: { readonly namespace: string; readonly name: string },
  found: FoundPod,
): PodHolding {
  const named = blocks.flatMap(({ value }) =>
    heldAddresses(value, (holder) => holder.pod === name && holder.namespace === namespace),
  );
  const isOwn = ({ allocation: { podUid, node } }: HeldAddress): boolean =>
    found === 'unasked' || (found !== 'missing' && (podUid === found.uid || node === found.nodeName));
  return { own: named.filter(isOwn), earlier: named.filter((each) => !isOwn(each)) };
}
