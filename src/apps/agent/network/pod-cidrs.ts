import type { NodeName } from '../../../model/names.ts';
import type { Address } from '../../../net/address.ts';
import { addressAt, type Cidr, tryReadCidr } from '../../../net/cidr.ts';
import type { ClusterState } from '../../../routing/cluster-state.ts';
import { type TunnelKind, TUNNELS } from '../../../routing/tunnels.ts';

/** host-local never gives a pod the first address of its range, which is the gateway's: so the tunnel has it. */
export function podCidrAddress(state: ClusterState, node: NodeName, kind: TunnelKind): Address | undefined {
  const own = podCidrsOf(state, node).find(({ base }) => base.family === TUNNELS[kind].family);
  return own === undefined ? undefined : addressAt(own, 1);
}

/** Why there can be no routes by pod CIDRs. */
export function podCidrProblems(state: ClusterState, node: NodeName): readonly string[] {
  if (podCidrsOf(state, node).length > 0) return [];
  return [`routes: USE_POD_CIDR is set, and Node "${node}" has no pod CIDRs`];
}

function podCidrsOf(state: ClusterState, node: NodeName): readonly Cidr[] {
  return (state.findNode(node)?.spec.podCIDRs ?? []).flatMap((text) => tryReadCidr(text)?.cidr ?? []);
}
