import { HOST_LINK_PREFIX } from '../dataplane/kernel.ts';
import type { NftJson, NftObject, NftStatement } from '../dataplane/packet-filter.ts';
import { type Family, formatAddress } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';

type Side = 'saddr' | 'daddr';
type AddressType = 'local' | 'broadcast' | 'multicast';

/** Names of the protocol of each family in nftables. */
const PROTOCOLS: Readonly<Record<Family, string>> = { 4: 'ip', 6: 'ip6' };

/** Names of the addresses of each family in nftables. */
export const ADDRESS_TYPES: Readonly<Record<Family, string>> = { 4: 'ipv4_addr', 6: 'ipv6_addr' };

/** Also randomizes the source port, so that concurrent connections do not collide. */
export const MASQUERADE: NftStatement = { masquerade: { flags: ['fully-random'] } };

export const ACCEPT: NftStatement = { accept: null };
export const DROP: NftStatement = { drop: null };

/** The packet comes from the link of a pod. */
export const COMES_FROM_POD: NftStatement = {
  match: { op: '==', left: { meta: { key: 'iifname' } }, right: `${HOST_LINK_PREFIX}*` },
};

/** The host has no route to the source address through the link that the packet comes from. */
export const HAS_FOREIGN_SOURCE: NftStatement = {
  match: { op: '==', left: { fib: { result: 'oif', flags: ['saddr', 'iif'] } }, right: false },
};

/** The packet belongs to an established connection. */
export const ESTABLISHED: NftStatement = {
  match: { op: 'in', left: { ct: { key: 'state' } }, right: 'established' },
};

export function isOfFamily(family: Family): NftStatement {
  return { match: { op: '==', left: { meta: { key: 'nfproto' } }, right: `ipv${String(family)}` } };
}

/** An address of the packet. */
export function headerAddress(family: Family, side: Side): NftJson {
  return { payload: { protocol: PROTOCOLS[family], field: side } };
}

export function isIn(left: NftJson, set: string): NftStatement {
  return { match: { op: '==', left, right: `@${set}` } };
}

export function isNotIn(left: NftJson, set: string): NftStatement {
  return { match: { op: '!=', left, right: `@${set}` } };
}

/** The address is in the range. */
export function isWithin(left: NftJson, range: Cidr): NftStatement {
  return { match: { op: '==', left, right: prefixOf(range) } };
}

/** A range as an element of a set or the right side of a match. */
export function prefixOf({ base, prefixBits }: Cidr): NftJson {
  return { prefix: { addr: formatAddress(base), len: prefixBits } };
}

export function leavesBy(devices: readonly string[]): NftStatement {
  return { match: { op: '==', left: { meta: { key: 'oifname' } }, right: { set: devices } } };
}

/** The type of an address by the host's routes, or by those of the outgoing device (`oif`). */
export function addressType(side: Side, ...scope: readonly 'oif'[]): NftJson {
  return { fib: { result: 'type', flags: [side, ...scope] } };
}

export function isOfType(left: NftJson, type: AddressType): NftStatement {
  return { match: { op: '==', left, right: type } };
}

export function isOfNoType(left: NftJson, types: readonly AddressType[]): NftStatement {
  return { match: { op: '!=', left, right: { set: types } } };
}

/** Sets source or destination to the value of `key` in the map. Does nothing when the map lacks the key. */
export function translate(
  kind: 'snat' | 'dnat',
  family: Family,
  { key, map }: { key: NftJson; map: string },
): NftStatement {
  return { [kind]: { family: PROTOCOLS[family], addr: { map: { key, data: `@${map}` } } } };
}

/** The destination is in no pool (set `pools`), and is neither an address of the node nor a broadcast or multicast address. */
export function goesOutside(family: Family): readonly NftStatement[] {
  return [
    isNotIn(headerAddress(family, 'daddr'), setName('pools', family)),
    isOfNoType(addressType('daddr'), ['local', 'broadcast', 'multicast']),
  ];
}

export function rule(chain: string, ...expr: readonly NftStatement[]): NftObject {
  return { rule: { chain, expr } };
}

/** Returns the name of a set or map, which contains addresses of one family only. */
export function setName(name: string, family: Family): string {
  return `${name}-v${String(family)}`;
}
