import { bgpSettingsOf } from '../../../../bgp/bgp-settings.ts';
import type { NodeTraffic } from '../../../../install/host/firewall/traffic.ts';
import type { NodeName } from '../../../../model/names.ts';
import type { Family } from '../../../../net/address.ts';
import type { ClusterState } from '../../../../routing/cluster-state.ts';
import { isHostAddress } from '../../../../routing/detect-address.ts';
import type { OwnAddress } from '../../../../routing/plan-hops.ts';
import { isByBgp, isDirect, openTunnels } from '../../../../routing/pool-modes.ts';

/** Returns what passes between the node, its pods and the other nodes. */
export function nodeTraffic(
  node: NodeName,
  state: Pick<ClusterState, 'pools' | 'nodeNames' | 'endsOf' | 'bgpConfigurations'>,
  own: ReadonlyMap<Family, OwnAddress>,
): NodeTraffic {
  const { pools } = state;
  const others = state.nodeNames.filter((name) => name !== node);
  const bgp = bgpSettingsOf(node, state.bgpConfigurations);
  return {
    families: new Set(pools.map(({ cidr }) => cidr.base.family)),
    pools: pools.map(({ cidr }) => cidr),
    own: new Map([...own].map(([family, each]) => [family, { address: each.address, device: uplinkOf(each) }])),
    peers: others.flatMap((name) => [...state.endsOf(name).addresses.values()]),
    tunnels: [...new Set(pools.flatMap(openTunnels))],
    direct: new Set(pools.filter(({ open }) => open.some(isDirect)).map(({ cidr }) => cidr.base.family)),
    bgpPort: bgp.isMeshEnabled && pools.some(isByBgp) ? bgp.listenPort : undefined,
  };
}

/** Packets for an address without a network arrive by any link. */
function uplinkOf(own: OwnAddress): string | undefined {
  return isHostAddress(own) ? undefined : own.device;
}
