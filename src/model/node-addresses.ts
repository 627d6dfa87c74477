import { type Address, tryParseAddress } from '../net/address.ts';
import { tryReadCidr } from '../net/cidr.ts';
import type { Node } from './node.ts';

/** Returns the addresses of the node in the networks of its hosts, which may be listed twice. */
export function hostAddressesOf({ spec }: Node): readonly Address[] {
  const texts = [
    ...(spec.addresses ?? []).map(({ address }) => address),
    ...[spec.bgp?.ipv4Address, spec.bgp?.ipv6Address].flatMap((text) => text ?? []),
  ];
  return texts.flatMap((text) => tryParseAddress(text) ?? tryReadCidr(text)?.address ?? []);
}

/** Returns the addresses of the tunnel devices of the node, from which its own processes send through them. */
export function tunnelAddressesOf({ spec }: Node): readonly Address[] {
  const { ipv4VXLANTunnelAddr, ipv6VXLANTunnelAddr, ipv4IPIPTunnelAddr } = spec;
  return [ipv4VXLANTunnelAddr, ipv6VXLANTunnelAddr, ipv4IPIPTunnelAddr].flatMap(
    (text) => tryParseAddress(text ?? '') ?? [],
  );
}
