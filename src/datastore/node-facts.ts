import type { Node } from '../model/node.ts';
import { tryReadCidr } from '../net/cidr.ts';
import { formatAddress } from '../net/address.ts';
import type { NodeFacts } from './node-status-store.ts';
import { given } from '../base/given.ts';

/** Replaces the facts of the node, and keeps its other fields. */
export function withFacts(node: Node, facts: NodeFacts): Node {
  const {
    ipv4VXLANTunnelAddr: _v4,
    vxlanTunnelMACAddr: _mac,
    ipv6VXLANTunnelAddr: _v6,
    vxlanTunnelMACAddrV6: _macV6,
    ipv4IPIPTunnelAddr: _ipip,
    netplugVersion: _version,
    addresses: oldAddresses = [],
    bgp: { ipv4Address: _ipv4, ipv6Address: _ipv6, ...otherBgp } = {},
    ...kept
  } = node.spec;
  const { ipv4Address, ipv6Address, ...others } = facts;
  const bgp = { ...otherBgp, ...given({ ipv4Address, ipv6Address }) };
  const addresses = [
    ...[ipv4Address, ipv6Address].flatMap((text) => nodeAddress(text)),
    ...oldAddresses.filter(({ type }) => type !== 'NodeIP'),
  ];
  const spec = {
    ...kept,
    ...given(others),
    ...(Object.keys(bgp).length === 0 ? {} : { bgp }),
    ...(addresses.length === 0 ? {} : { addresses }),
  };
  return { ...node, spec };
}

/** Returns the facts that the agent of the node has published. */
export function nodeFactsOf({ spec }: Node): NodeFacts {
  const { ipv4VXLANTunnelAddr, vxlanTunnelMACAddr, ipv6VXLANTunnelAddr, vxlanTunnelMACAddrV6 } = spec;
  const { ipv4Address, ipv6Address } = spec.bgp ?? {};
  const tunnels = { ipv4VXLANTunnelAddr, vxlanTunnelMACAddr, ipv6VXLANTunnelAddr, vxlanTunnelMACAddrV6 };
  const { ipv4IPIPTunnelAddr, netplugVersion } = spec;
  return given({ ...tunnels, ipv4IPIPTunnelAddr, netplugVersion, ipv4Address, ipv6Address });
}

/** Returns the address without its prefix length. */
function nodeAddress(text: string | undefined): { readonly address: string; readonly type: 'NodeIP' }[] {
  const address = text === undefined ? undefined : tryReadCidr(text)?.address;
  return address === undefined ? [] : [{ address: formatAddress(address), type: 'NodeIP' }];
}
