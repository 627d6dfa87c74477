import type { Node } from '../model/node.ts';
import { tryReadCidr } from '../net/cidr.ts';
import { formatAddress } from '../net/address.ts';
import type { NodeFacts } from './node-status-store.ts';

/** The node with these facts instead of those it had; the rest of it stays. */
export function withFacts(node: Node, facts: NodeFacts): Node {
  const {
    ipv4VXLANTunnelAddr: _v4,
    vxlanTunnelMACAddr: _mac,
    ipv6VXLANTunnelAddr: _v6,
    vxlanTunnelMACAddrV6: _macV6,
    ipv4IPIPTunnelAddr: _ipip,
    addresses: oldAddresses = [],
    bgp: { ipv4Address: _ipv4, ipv6Address: _ipv6, ...otherBgp } = {},
    ...kept
  } = node.spec;
  const { ipv4Address, ipv6Address, ...tunnels } = facts;
  const bgp = { ...otherBgp, ...given({ ipv4Address, ipv6Address }) };
  const addresses = [
    ...[ipv4Address, ipv6Address].flatMap((text) => nodeAddress(text)),
    ...oldAddresses.filter(({ type }) => type !== 'NodeIP'),
  ];
  const spec = {
    ...kept,
    ...given(tunnels),
    ...(Object.keys(bgp).length === 0 ? {} : { bgp }),
    ...(addresses.length === 0 ? {} : { addresses }),
  };
  return { ...node, spec };
}

/** What of the node its agent has told. */
export function nodeFactsOf({ spec }: Node): NodeFacts {
  const { ipv4VXLANTunnelAddr, vxlanTunnelMACAddr, ipv6VXLANTunnelAddr, vxlanTunnelMACAddrV6 } = spec;
  const { ipv4Address, ipv6Address } = spec.bgp ?? {};
  const tunnels = { ipv4VXLANTunnelAddr, vxlanTunnelMACAddr, ipv6VXLANTunnelAddr, vxlanTunnelMACAddrV6 };
  return given({ ...tunnels, ipv4IPIPTunnelAddr: spec.ipv4IPIPTunnelAddr, ipv4Address, ipv6Address });
}

/** The fields that have a value. */
export function given<T extends object>(fields: T): Partial<T> {
  // Only entries go, no name and no type of one changes.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** The address without the prefix of its subnet. */
function nodeAddress(text: string | undefined): { readonly address: string; readonly type: 'NodeIP' }[] {
  const address = text === undefined ? undefined : tryReadCidr(text)?.address;
  return address === undefined ? [] : [{ address: formatAddress(address), type: 'NodeIP' }];
}
