import { VERSION } from '../../../base/version.ts';
import { given } from '../../../base/given.ts';
import type { NodeFacts } from '../../../datastore/node-status-store.ts';
import { type Address, type Family, formatAddress } from '../../../net/address.ts';
import type { OwnAddress } from '../../../routing/plan-hops.ts';
import type { OwnTunnel } from './routes/reconcile-tunnels.ts';

/** Returns what the node publishes for other nodes: its addresses, tunnel endpoints and release. */
export function ownFacts(addresses: ReadonlyMap<Family, OwnAddress>, tunnels: readonly OwnTunnel[]): NodeFacts {
  const tunnel = new Map(tunnels.map((each) => [each.kind, each]));
  return given({
    ipv4Address: subnetAddress(addresses.get(4)),
    ipv6Address: subnetAddress(addresses.get(6)),
    ipv4VXLANTunnelAddr: textOf(tunnel.get('vxlan4')?.address),
    vxlanTunnelMACAddr: tunnel.get('vxlan4')?.mac,
    ipv6VXLANTunnelAddr: textOf(tunnel.get('vxlan6')?.address),
    vxlanTunnelMACAddrV6: tunnel.get('vxlan6')?.mac,
    ipv4IPIPTunnelAddr: textOf(tunnel.get('ipip4')?.address),
    netplugVersion: VERSION,
  });
}

/** Returns the address with the prefix length of its subnet, such as `192.0.2.7/24`. */
export function subnetAddress(own: OwnAddress | undefined): string | undefined {
  return own === undefined ? undefined : `${formatAddress(own.address)}/${String(own.prefixBits)}`;
}

function textOf(address: Address | undefined): string | undefined {
  return address === undefined ? undefined : formatAddress(address);
}
