import { NetplugError } from '../base/errors.ts';
import type { Family } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import type { CniCall, CniPorts } from './call.ts';

/** The subnets that `usePodCidr` and `usePodCidrIPv6` stand for on a node. */
export type PodSubnets = Readonly<Record<Family, string | undefined>>;

/** Stands in for the pod CIDRs in DEL and GC, which find addresses by container. */
export const WHOLE_FAMILIES: PodSubnets = { 4: '0.0.0.0/0', 6: '::/0' };

/** The words for pod CIDRs in the specification, with their families. */
export const POD_CIDR_WORDS: Readonly<Record<string, Family>> = { usePodCidr: 4, usePodCidrIPv6: 6 };

/**
 * Reads the pod CIDRs of `orch.node_name`, by default of this node.
 * @throws orch/not-found when the node has none of a family that the configuration asks for
 */
export async function readPodSubnets({ orch }: CniPorts, call: CniCall): Promise<PodSubnets> {
  const { config, raw, signal } = call;
  const node = config.orch.nodeName ?? call.node;
  const cidrs = await orch.readPodCidrs(node, signal);
  const of = (family: Family): string | undefined => {
    const cidr = cidrs.find(({ base }) => base.family === family);
    return cidr === undefined ? undefined : formatCidr(cidr);
  };
  const subnets = { 4: of(4), 6: of(6) };
  for (const [word, family] of Object.entries(POD_CIDR_WORDS)) {
    if (subnets[family] !== undefined || !JSON.stringify(raw['ipam']).includes(JSON.stringify(word))) continue;
    const known = cidrs.map(formatCidr).join(', ');
    throw new NetplugError(
      'orch/not-found',
      `Cannot use "${word}": node "${node}" has no IPv${String(family)} pod CIDR (${known === '' ? 'it has none at all' : known})`,
      {
        hint: 'Let the orchestrator allocate pod CIDRs of this family to nodes, write a fixed subnet, or correct orch.node_name',
        facts: { node, family },
      },
    );
  }
  return subnets;
}
