import type { Family } from '../net/address.ts';
import type { NftJson, NftObject, NftStatement } from '../dataplane/packet-filter.ts';

type Side = 'saddr' | 'daddr';
type AddressType = 'local' | 'broadcast' | 'multicast';

/** How nftables names the protocol of each family. */
const PROTOCOLS: Readonly<Record<Family, string>> = { 4: 'ip', 6: 'ip6' };

/** How nftables names the addresses of each family. */
export const ADDRESS_TYPES: Readonly<Record<Family, string>> = { 4: 'ipv4_addr', 6: 'ipv6_addr' };

/** Picks the source port at random too, so that two connections are not given the same one at the same time. */
export const MASQUERADE: NftStatement = { masquerade: { flags: ['fully-random'] } };

export const ACCEPT: NftStatement = { accept: null };

/** The packet belongs to a connection that is known already. */
export const ESTABLISHED: NftStatement = {
  match: { op: 'in', left: { ct: { key: 'state' } }, right: 'established' },
};

/** An address of the packet. */
export function headerAddress(family: Family, side: Side): NftJson {
  return { payload: { protocol: PROTOCOLS[family], field: side } };
}

export function isIn(left: NftJson, set: string): NftStatement {
  return { match: { op: '==', left, right: `@${set}` } };
}

export function leavesBy(devices: readonly string[]): NftStatement {
  return { match: { op: '==', left: { meta: { key: 'oifname' } }, right: { set: devices } } };
}

/** What the host's routes say of an address: of the whole host, or (`oif`) of the device the packet leaves by. */
export function addressType(side: Side, ...scope: readonly 'oif'[]): NftJson {
  return { fib: { result: 'type', flags: [side, ...scope] } };
}

export function isOfType(left: NftJson, type: AddressType): NftStatement {
  return { match: { op: '==', left, right: type } };
}

export function isOfNoType(left: NftJson, types: readonly AddressType[]): NftStatement {
  return { match: { op: '!=', left, right: { set: types } } };
}

/** Looks `key` up in the map and makes what is found the source or destination; a key that is not there changes nothing. */
export function translate(
  kind: 'snat' | 'dnat',
  family: Family,
  { key, map }: { key: NftJson; map: string },
): NftStatement {
  return { [kind]: { family: PROTOCOLS[family], addr: { map: { key, data: `@${map}` } } } };
}

/** Its destination lies in no pool (set `pools`), and is neither the node itself nor everybody on a network. */
export function goesOutside(family: Family): readonly NftStatement[] {
  const right = `@${nameOf('pools', family)}`;
  return [
    { match: { op: '!=', left: headerAddress(family, 'daddr'), right } },
    isOfNoType(addressType('daddr'), ['local', 'broadcast', 'multicast']),
  ];
}

export function rule(chain: string, ...expr: readonly NftStatement[]): NftObject {
  return { rule: { chain, expr } };
}

/** A set or map holds addresses of one family only. */
export function nameOf(name: string, family: Family): string {
  return `${name}-v${String(family)}`;
}
