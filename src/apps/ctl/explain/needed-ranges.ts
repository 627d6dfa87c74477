import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { clusterRanges, rangesOfNode } from '../../../model/cluster-ranges.ts';
import type { NodeName } from '../../../model/names.ts';
import type { UsedRange } from '../../../model/used-range.ts';
import type { Context } from '../ports.ts';

/**
 * Returns what the node itself needs, over which its plugin assigns nothing: the networks of all interfaces, when the node is
 * this machine; of another node the addresses in its record.
 */
export async function neededRanges(
  { ports, signal }: Pick<Context, 'ports' | 'signal'>,
  { store, node, isHere }: { readonly store: AllocationStore; readonly node: NodeName; readonly isHere: boolean },
): Promise<readonly UsedRange[]> {
  if (isHere) return ports.plugin.ownRanges();
  const view = await store.readNodeView(node, undefined, signal);
  return view.node === undefined ? [] : clusterRanges({ nodes: [rangesOfNode(view.node)], serviceCidrs: [] });
}
