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

/** Reports whether the link is a tunnel device. Such a device may have a copy of the node's own address. */
export function isTunnelDevice(name: string): boolean {
  return TUNNEL_KINDS.some((kind) => TUNNELS[kind].device === name);
}

/** A UDP port. */
export const VXLAN_PORT = 4789;
export const VXLAN_VNI = 4096;

/** Returns the tunnel for a mode. IPv6 pools cannot use IP-in-IP. */
export function tunnelKind(mode: 'vxlan' | 'ipip', family: Family): TunnelKind {
  return mode === 'ipip' ? 'ipip4' : family === 4 ? 'vxlan4' : 'vxlan6';
}
