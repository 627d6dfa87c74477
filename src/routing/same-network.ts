import type { Hop, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import { formatAddress, sameAddress } from '../net/address.ts';
import { formatCidr } from '../net/cidr.ts';
import type { OwnAddress, OwnNetwork } from './plan-hops.ts';

export function sameHop(a: Hop, b: Hop): boolean {
  if (a.kind === 'blackhole' || b.kind === 'blackhole') return a.kind === b.kind;
  return a.device === b.device && a.isOnLink === b.isOnLink && sameAddress(a.gateway, b.gateway);
}

export function routeKey({ destination }: HostRoute): string {
  return formatCidr(destination);
}

/** Returns the key of a peer. A device has at most one peer for a gateway. */
export function peerKey({ device, gateway }: Pick<TunnelPeer, 'device' | 'gateway'>): string {
  return `${device} ${formatAddress(gateway)}`;
}

export function samePeer(a: TunnelPeer, b: TunnelPeer): boolean {
  return peerKey(a) === peerKey(b) && a.mac === b.mac && sameAddress(a.remote, b.remote);
}

export function sameOwnNetwork(a: OwnNetwork, b: OwnNetwork): boolean {
  const isSameAddress = (one: OwnAddress, other: OwnAddress | undefined): boolean =>
    other !== undefined &&
    sameAddress(one.address, other.address) &&
    one.prefixBits === other.prefixBits &&
    one.device === other.device;
  return (
    a.addresses.size === b.addresses.size &&
    [...a.addresses].every(([family, one]) => isSameAddress(one, b.addresses.get(family))) &&
    a.tunnels.symmetricDifference(b.tunnels).size === 0
  );
}
