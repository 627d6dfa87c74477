import type { IpPool } from '../model/ip-pool.ts';
import type { Node } from '../model/node.ts';
import type { Address } from '../net/address.ts';
import { cidrContains, parseCidr, tryReadCidr } from '../net/cidr.ts';
import { endsOf } from './node-ends.ts';
import { isTunnelled, modeOf } from './pool-modes.ts';
import { tunnelKind, TUNNELS } from './tunnels.ts';

/**
 * Returns the device of the tunnel by which packets of the node reach an address on another one, as their records and the
 * mode of its pool say; undefined without a tunnel.
 */
export function tunnelTo(
  address: Address,
  { from, to, pools }: { readonly from: Node; readonly to: Node; readonly pools: readonly IpPool[] },
): string | undefined {
  const { family } = address;
  const pool = pools.find(({ spec }) => cidrContains(parseCidr(spec.cidr), address));
  const { bgp } = from.spec;
  const here = tryReadCidr((family === 4 ? bgp?.ipv4Address : bgp?.ipv6Address) ?? '');
  const { addresses, vxlan } = endsOf(to);
  const there = addresses.get(family);
  if (pool === undefined || here === undefined || there === undefined) return undefined;
  const mode = modeOf(pool);
  if (mode.kind === 'bgp' || !isTunnelled(mode, here.cidr, there)) return undefined;
  if (mode.kind === 'vxlan' && !vxlan.has(family)) return undefined;
  return TUNNELS[tunnelKind(mode.kind, family)].device;
}
