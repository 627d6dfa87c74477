import type { Family } from '../net/address.ts';
import type { Encapsulation } from './tunnel-mtu.ts';

/** The tunnels between nodes: VXLAN for either family, IP-in-IP for IPv4. */
export type TunnelKind = 'vxlan4' | 'vxlan6' | 'ipip4';

interface TunnelInfo {
  readonly device: string;
  readonly family: Family;
  readonly encapsulation: Encapsulation;
}

export const TUNNELS: Readonly<Record<TunnelKind, TunnelInfo>> = {
  vxlan4: { device: 'vxlan.netplug', family: 4, encapsulation: 'vxlan-over-ipv4' },
  vxlan6: { device: 'vxlan6.netplug', family: 6, encapsulation: 'vxlan-over-ipv6' },
  ipip4: { device: 'ipip.netplug', family: 4, encapsulation: 'ipip' },
};
export const TUNNEL_KINDS: readonly TunnelKind[] = ['vxlan4', 'vxlan6', 'ipip4'];

/** A tunnel device may have the node's own address, which belongs to another link. */
export function isTunnelDevice(name: string): boolean {
  return TUNNEL_KINDS.some((kind) => TUNNELS[kind].device === name);
}

/** UDP. */
export const VXLAN_PORT = 4789;
export const VXLAN_VNI = 4096;

/** There is no IP-in-IP for IPv6 pools. */
export function tunnelKind(mode: 'vxlan' | 'ipip', family: Family): TunnelKind {
  return mode === 'ipip' ? 'ipip4' : family === 4 ? 'vxlan4' : 'vxlan6';
}
