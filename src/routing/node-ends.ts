import type { Node } from '../model/node.ts';
import { type Address, type Family, formatAddress, tryParseAddress } from '../net/address.ts';
import { linkLocalOf } from '../net/link-local.ts';
import { type Mac, tryParseMac } from '../net/mac.ts';
import { TUNNEL_KINDS, TUNNELS } from './tunnels.ts';

/** The endpoints by which other nodes reach a node, as its agent published them. */
export interface NodeEnds {
  /** Its own addresses. */
  readonly addresses: ReadonlyMap<Family, Address>;
  /** Its VXLAN tunnel endpoints (VTEPs). */
  readonly vxlan: ReadonlyMap<Family, VxlanEnd>;
}

export interface VxlanEnd {
  readonly mac: Mac;
  /**
   * The next hop inside the tunnel. IPv4: the node's tunnel address, or its own without one. IPv6: the link-local address
   * of the MAC, because the kernel rejects a gateway to which another route exists, such as one of BIRD.
   */
  readonly gateway: Address;
}

export const NO_ENDS: NodeEnds = { addresses: new Map(), vxlan: new Map() };

export function endsOf({ spec }: Node): NodeEnds {
  const addresses = new Map<Family, Address>();
  const vxlan = new Map<Family, VxlanEnd>();
  const own = { 4: spec.bgp?.ipv4Address, 6: spec.bgp?.ipv6Address };
  const macs = { 4: spec.vxlanTunnelMACAddr, 6: spec.vxlanTunnelMACAddrV6 };
  for (const family of [4, 6] as const) {
    const address = ofFamily(own[family]?.split('/')[0], family);
    if (address === undefined) continue;
    addresses.set(family, address);
    const mac = tryParseMac(macs[family] ?? '');
    if (mac === undefined) continue;
    const inside = family === 4 ? (ofFamily(spec.ipv4VXLANTunnelAddr, 4) ?? address) : linkLocalOf(mac);
    vxlan.set(family, { mac, gateway: inside });
  }
  return { addresses, vxlan };
}

/** Returns the address of the tunnel device on the node, from which its own processes send through it. */
export function tunnelAddressOf({ spec }: Node, device: string): Address | undefined {
  const texts = { vxlan4: spec.ipv4VXLANTunnelAddr, vxlan6: spec.ipv6VXLANTunnelAddr, ipip4: spec.ipv4IPIPTunnelAddr };
  const kind = TUNNEL_KINDS.find((each) => TUNNELS[each].device === device);
  return kind === undefined ? undefined : tryParseAddress(texts[kind] ?? '');
}

/** Reports whether routes to both are the same. */
export function sameEnds(a: NodeEnds, b: NodeEnds): boolean {
  return describe(a) === describe(b);
}

function describe({ addresses, vxlan }: NodeEnds): string {
  const ends = [...vxlan].map(([family, { mac, gateway }]) => `${String(family)} ${mac} ${formatAddress(gateway)}`);
  return [...[...addresses.values()].map(formatAddress), ...ends].join(', ');
}

function ofFamily(text: string | undefined, family: Family): Address | undefined {
  const address = tryParseAddress(text ?? '');
  return address?.family === family ? address : undefined;
}
