import type { NodeName } from '../../../../model/names.ts';
import type { Address } from '../../../../net/address.ts';
import { addressAt, type Cidr, tryReadCidr } from '../../../../net/cidr.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import { type TunnelKind, TUNNELS } from '../../../../routing/tunnels.ts';

/** Returns the tunnel's address: the first of the pod CIDR, which host-local reserves for the gateway and assigns to no pod. */
export function podCidrAddress(state: ClusterState, node: NodeName, kind: TunnelKind): Address | undefined {
  const own = podCidrsOf(state, node).find(({ base }) => base.family === TUNNELS[kind].family);
  return own === undefined ? undefined : addressAt(own, 1);
}

/** Reports missing pod CIDRs, a sentence each. */
export function podCidrProblems(state: ClusterState, node: NodeName): readonly string[] {
  if (podCidrsOf(state, node).length > 0) return [];
  return [`routes: USE_POD_CIDR is set, and Node "${node}" has no pod CIDRs`];
}

function podCidrsOf(state: ClusterState, node: NodeName): readonly Cidr[] {
  return (state.findNode(node)?.spec.podCIDRs ?? []).flatMap((text) => tryReadCidr(text)?.cidr ?? []);
}
