import type { Allocation, IpBlock } from '../../model/ip-block.ts';
import { type HeldAddress, heldAddresses } from '../../model/ip-block.ts';
import { isDnsLabel, isDnsSubdomain } from '../../model/dns-name.ts';
import type { NodeName } from '../../model/names.ts';
import { isTunnelAddress } from '../../model/tunnel-attachment.ts';
import { formatCidr } from '../../net/cidr.ts';
import { isHeldBy } from './pod-presence.ts';
import type { CachedView } from './views.ts';

/** Addresses and nodes that may have leaked, by the cached view. */
export interface Suspects {
  /** Addresses whose pod, or for a tunnel device whose node, is not in the view. By node of the holder. */
  readonly addresses: ReadonlyMap<NodeName, readonly HeldAddress[]>;
  /** Nodes that own blocks, hold addresses or have a record, and are not in the view. */
  readonly nodes: ReadonlySet<NodeName>;
}

/**
 * Reports whether the orchestrator can say something of the holder: a tunnel device of a node, or a pod. The runtime of another
 * orchestrator may name what no pod is called.
 */
export function isJudged(allocation: Allocation): boolean {
  const { namespace = '', pod = '' } = allocation;
  return isTunnelAddress(allocation) || (isDnsLabel(namespace) && isDnsSubdomain(pod));
}

export function findSuspects(blocks: readonly IpBlock[], view: CachedView): Suspects {
  const held = blocks.flatMap((block) => heldAddresses(block));
  const suspects = held.filter(({ allocation }) => isJudged(allocation) && !isInUse(allocation, view));
  const nodes = [
    ...blocks.map(({ node }) => node),
    ...held.map(({ allocation }) => allocation.node),
    ...view.recordedNodes(),
  ];
  return {
    addresses: Map.groupBy(suspects, ({ allocation }) => allocation.node),
    nodes: new Set(nodes.filter((node) => node !== undefined).filter((node) => !view.hasNode(node))),
  };
}

function isInUse(allocation: Allocation, view: CachedView): boolean {
  if (isTunnelAddress(allocation)) return view.hasNode(allocation.node);
  return isHeldBy(view.findPod(allocation.namespace ?? '', allocation.pod ?? ''), allocation);
}

/**
 * Returns a text that changes whenever the agent of the node works with its blocks: claims one, or pre-allocates addresses. A
 * node that the orchestrator has not, and whose agent works, is not gone.
 */
export function activityOf(node: NodeName, blocks: readonly IpBlock[]): string {
  const owned = blocks.filter((block) => block.node === node);
  const lines = owned.map(
    ({ cidr, preallocated }) => `${formatCidr(cidr)} ${[...preallocated.values()].sort().join(' ')}`,
  );
  return JSON.stringify([node, ...lines.sort()]);
}
