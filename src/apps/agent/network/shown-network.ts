import type { SessionStatus } from '../../../bgp/read-status.ts';
import type { NodeName } from '../../../model/names.ts';
import type { ShownNetwork } from '../../../model/shown-network.ts';
import { type Family, formatAddress } from '../../../net/address.ts';
import type { ClusterState } from '../../../routing/cluster-state.ts';
import type { DesiredNetwork } from '../../../routing/desired-network.ts';
import type { OwnAddress } from '../../../routing/plan-hops.ts';
import type { PoolMode } from '../../../routing/pool-modes.ts';
import { TUNNELS } from '../../../routing/tunnels.ts';
import type { OwnTunnel } from './routes/reconcile-tunnels.ts';
import { subnetAddress } from './own-facts.ts';

interface NetworkParts {
  readonly node: NodeName;
  readonly state: ClusterState;
  readonly desired: DesiredNetwork;
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  readonly tunnels: readonly OwnTunnel[];
  /** Undefined while BIRD does not run. */
  readonly sessions: readonly SessionStatus[] | undefined;
}

/** The network of the node without its problems, which the agent adds with those of its own. */
export type ShownParts = Omit<ShownNetwork, 'problems'>;

export function shownNetwork(parts: NetworkParts): ShownParts {
  const { node, state, desired, addresses, tunnels, sessions } = parts;
  return {
    node,
    addresses: [...addresses.values()].map((own) => ({ address: subnetAddress(own) ?? '', device: own.device })),
    tunnels: tunnels.map(({ kind, address }) => ({
      device: TUNNELS[kind].device,
      ...(address === undefined ? {} : { address: formatAddress(address) }),
    })),
    routes: desired.routeKinds,
    peers: desired.peers.size,
    nodes: state.nodes.length,
    pools: state.pools.map(({ pool, mode }) => ({
      name: pool.metadata.name,
      cidr: pool.spec.cidr,
      mode: modeName(mode),
    })),
    bgp: sessions?.map(({ peerAddress, kind, state: name, bfd, sinceMs, info }) => ({
      peer: formatAddress(peerAddress),
      kind,
      state: name,
      ...(bfd === undefined ? {} : { bfd }),
      since: new Date(sinceMs).toISOString(),
      info,
    })),
  };
}

function modeName(mode: PoolMode): string {
  return mode.kind === 'bgp' ? 'BGP' : `${mode.kind === 'vxlan' ? 'VXLAN' : 'IPIP'} ${mode.extent}`;
}
