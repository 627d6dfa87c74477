import type { NodeName } from '../model/names.ts';
import type { Node } from '../model/node.ts';
import type { Family } from '../net/address.ts';
import { type Cidr, cidrContains, outermostCidrs, tryReadCidr } from '../net/cidr.ts';
import { openTunnels, type RoutedPool } from './pool-modes.ts';
import type { TunnelledPools } from './tunnel-table.ts';
import { type TunnelKind, TUNNELS } from './tunnels.ts';

/**
 * Returns the pools to whose pods those of other nodes send by this tunnel alone. A pool with a replaced mode is left out while
 * packets may come by that, and so are pools with `CrossSubnet` when nodes differ in what a subnet is.
 */
export function tunnelledPools(
  by: TunnelKind,
  self: NodeName,
  { pools, nodes }: { readonly pools: readonly RoutedPool[]; readonly nodes: readonly Node[] },
): readonly TunnelledPools[] {
  const poolsOf = (wanted: 'Always' | 'CrossSubnet'): readonly Cidr[] => {
    const found = pools.filter(
      (pool) => pool.open.length === 1 && pool.mode.kind !== 'bgp' && pool.mode.extent === wanted,
    );
    return outermostCidrs(found.filter((pool) => openTunnels(pool).includes(by)).map(({ cidr }) => cidr));
  };
  const [always, across] = [poolsOf('Always'), poolsOf('CrossSubnet')];
  const isAcross = across.length > 0 && agreeOnSubnets(TUNNELS[by].family, self, nodes);
  return [
    ...(always.length === 0 ? [] : [{ by, pools: always }]),
    ...(isAcross ? [{ by, pools: across, from: across }] : []),
  ];
}

/** Reports whether each other node takes this one for one of its subnet exactly when this node does so. */
function agreeOnSubnets(family: Family, self: NodeName, nodes: readonly Node[]): boolean {
  const subnetOf = ({ spec: { bgp } }: Node): ReturnType<typeof tryReadCidr> =>
    tryReadCidr((family === 4 ? bgp?.ipv4Address : bgp?.ipv6Address) ?? '');
  const node = nodes.find(({ metadata }) => metadata.name === self);
  const own = node && subnetOf(node);
  if (own === undefined) return false;
  return nodes.every((each) => {
    const other = subnetOf(each);
    return other === undefined || cidrContains(own.cidr, other.address) === cidrContains(other.cidr, own.address);
  });
}
