import type { RoutedBlock } from '../datastore/follow.ts';
import type { Hop, HostRoute, TunnelPeer } from '../dataplane/host-network.ts';
import type { NodeName } from '../model/names.ts';
import { type Address, type Family, sameAddress } from '../net/address.ts';
import { type Cidr, cidrAround, hostCidr } from '../net/cidr.ts';
import type { NodeEnds } from './node-ends.ts';
import { isTunnelled, type PoolMode, type RoutedPool } from './pool-modes.ts';
import { type TunnelKind, tunnelKind, TUNNELS } from './tunnels.ts';

/** One address of this node, with its link. */
export interface OwnAddress {
  readonly address: Address;
  readonly prefixBits: number;
  readonly device: string;
  /** The mtu of that link, in bytes. */
  readonly mtu: number;
}

/** The addresses and tunnels of this node, on which its routes depend. */
export interface OwnNetwork {
  readonly addresses: ReadonlyMap<Family, OwnAddress>;
  /** Tunnel devices that exist. */
  readonly tunnels: ReadonlySet<TunnelKind>;
}

export interface HopFacts {
  readonly self: NodeName;
  readonly own: OwnNetwork;
  readonly endsOf: (node: NodeName) => NodeEnds;
}

/**
 * Plans the routes of this node for one block: to the owner of the block, and to the borrower of each borrowed address.
 * The node's own block gets a blackhole route, so that packets to free addresses do not loop.
 */
export function planBlockRoutes(
  { cidr, node, borrowed }: RoutedBlock,
  pool: RoutedPool | undefined,
  facts: HopFacts,
): readonly HostRoute[] {
  const routes: HostRoute[] = [];
  const towards = (destination: Cidr, owner: NodeName): void => {
    const hop = pool === undefined ? undefined : hopTo(owner, { pool, family: cidr.base.family }, facts);
    if (hop !== undefined) routes.push({ destination, hop });
  };
  if (node === facts.self) routes.push({ destination: cidr, hop: { kind: 'blackhole' } });
  else if (node !== undefined) towards(cidr, node);
  for (const [borrower, addresses] of borrowed) {
    if (borrower !== facts.self) for (const address of addresses) towards(hostCidr(address), borrower);
  }
  return routes;
}

/** Plans the tunnel peers by which this node reaches another one. */
export function planPeers(ends: NodeEnds, { tunnels, addresses }: OwnNetwork): readonly TunnelPeer[] {
  return (['vxlan4', 'vxlan6'] as const).flatMap((kind) => {
    const { device, family } = TUNNELS[kind];
    const [end, remote] = [ends.vxlan.get(family), ends.addresses.get(family)];
    if (!tunnels.has(kind) || end === undefined || remote === undefined) return [];
    if (isOwn(remote, addresses)) return [];
    return [{ device, gateway: end.gateway, mac: end.mac, remote }];
  });
}

/** Returns the hop of the first mode that works already; undefined when BGP provides the route, or none is possible yet. */
function hopTo(
  node: NodeName,
  { pool, family }: { readonly pool: RoutedPool; readonly family: Family },
  { own, endsOf }: HopFacts,
): Hop | undefined {
  const ends = endsOf(node);
  for (const mode of pool.sending) {
    const hop = hopBy(mode, { family, ends, own });
    if (hop !== undefined) return hop;
  }
  return undefined;
}

function hopBy(
  mode: PoolMode,
  { family, ends, own }: { readonly family: Family; readonly ends: NodeEnds; readonly own: OwnNetwork },
): Hop | undefined {
  const [there, here] = [ends.addresses.get(family), own.addresses.get(family)];
  if (mode.kind === 'bgp' || there === undefined || here === undefined) return undefined;
  if (isOwn(there, own.addresses)) return undefined;
  if (!isTunnelled(mode, cidrAround(here.address, here.prefixBits), there))
    return { kind: 'gateway', gateway: there, device: here.device, isOnLink: false };
  const kind = tunnelKind(mode.kind, family);
  const gateway = mode.kind === 'vxlan' ? ends.vxlan.get(family)?.gateway : there;
  if (!own.tunnels.has(kind) || gateway === undefined) return undefined;
  return { kind: 'gateway', gateway, device: TUNNELS[kind].device, isOnLink: true };
}

/** Reports whether this node has the address: the record of the other one is older, or wrong, and the kernel refuses such a gateway. */
function isOwn(remote: Address, addresses: OwnNetwork['addresses']): boolean {
  const own = addresses.get(remote.family);
  return own !== undefined && sameAddress(own.address, remote);
}
