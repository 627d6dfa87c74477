import { type Address, type Family, addressBytes, addressFromBytes, bitsOf } from '../../net/address.ts';
import type { Cidr } from '../../net/cidr.ts';
import { ROUTE_METRIC, ROUTE_PROTOCOL } from '../host-network.ts';
import { AF_OF } from './address-messages.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  attribute,
  decodeAttributes,
  u32Attribute,
  u32Of,
} from './netlink.ts';

export const RTM_NEWROUTE = 24;
export const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_SRC = 2;
const RTA_IIF = 3;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_PRIORITY = 6;
const RTA_PREFSRC = 7;
const RTA_MULTIPATH = 9;
const RTA_TABLE = 15;
/** Length, flags, weight and index of the link. */
const NEXTHOP_BYTES = 8;
const RTMSG_BYTES = 12;
export const RT_TABLE_MAIN = 254;
export const RT_TABLE_LOCAL = 255;
/** The default protocol, which netplug's routes to pods have. */
export const RTPROT_BOOT = 3;
/** The protocol of routes of the routing daemon BIRD. */
export const RTPROT_BIRD = 12;
const RTNH_F_ONLINK = 0x4;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_LINK = 253;
const RT_SCOPE_NOWHERE = 255;
const RTM_F_LOOKUP_TABLE = 0x1000;
const RTM_F_FIB_MATCH = 0x2000;

const ROUTE_TYPES: Readonly<Record<number, string>> = {
  1: 'unicast',
  2: 'local',
  3: 'broadcast',
  4: 'anycast',
  5: 'multicast',
  6: 'blackhole',
  7: 'unreachable',
  8: 'prohibit',
  9: 'throw',
};

/** The route types for which a lookup returns an error in place of the route. */
export const REFUSING_TYPES: readonly number[] = [6, 7, 8, 9];
export const RTN_UNICAST = 1;
const RTN_BLACKHOLE = 6;

/** One route as the kernel reports it. */
export interface Route {
  readonly destination: Cidr;
  /** `unicast`, `local`, `blackhole`, … */
  readonly type: string;
  readonly deviceIndex: number | undefined;
  readonly gateway: Address | undefined;
  readonly table: number;
  readonly priority: number | undefined;
  /** Identifies the program that made the route. */
  readonly protocol: number;
  readonly isOnLink: boolean;
  /** The source address of packets, where the kernel reports it. */
  readonly source: Address | undefined;
}

export interface NewRoute {
  readonly destination: Cidr;
  readonly deviceIndex: number;
  /** Undefined for a destination on the link. */
  readonly gateway: Address | undefined;
  /** Metric; chosen by the kernel unless given. */
  readonly priority?: number;
  /** The main table unless given. */
  readonly table?: number;
}

export function addRoute({ destination, deviceIndex, gateway, priority, table }: NewRoute): Message {
  const scope = gateway === undefined ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  const attributes = [
    attribute(RTA_DST, addressBytes(destination.base)),
    u32Attribute(RTA_OIF, deviceIndex),
    ...(gateway === undefined ? [] : [attribute(RTA_GATEWAY, addressBytes(gateway))]),
    ...(priority === undefined ? [] : [u32Attribute(RTA_PRIORITY, priority)]),
    ...(table === undefined ? [] : [u32Attribute(RTA_TABLE, table)]),
  ];
  // A table attribute, which may exceed 255, takes precedence over the header.
  const header = routeHeader({ destination, table: table === undefined ? RT_TABLE_MAIN : 0, scope, type: RTN_UNICAST });
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  return { type: RTM_NEWROUTE, flags, body: Buffer.concat([header, ...attributes]) };
}

/** A hop with the index of its device. */
export type IndexedHop =
  | { readonly kind: 'blackhole' }
  | {
      readonly kind: 'gateway';
      readonly gateway: Address;
      readonly deviceIndex: number;
      readonly isOnLink: boolean;
    };

/** Adds or replaces the agent's route for the destination; routes of other metrics stay. */
export function putAgentRoute(destination: Cidr, hop: IndexedHop): Message {
  const isGateway = hop.kind === 'gateway';
  const header = routeHeader({
    destination,
    table: RT_TABLE_MAIN,
    scope: RT_SCOPE_UNIVERSE,
    type: isGateway ? RTN_UNICAST : RTN_BLACKHOLE,
    protocol: ROUTE_PROTOCOL,
  });
  if (isGateway && hop.isOnLink) header.writeUInt32LE(RTNH_F_ONLINK, 8);
  const attributes = [
    attribute(RTA_DST, addressBytes(destination.base)),
    u32Attribute(RTA_PRIORITY, ROUTE_METRIC),
    ...(isGateway ? [u32Attribute(RTA_OIF, hop.deviceIndex), attribute(RTA_GATEWAY, addressBytes(hop.gateway))] : []),
  ];
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  return { type: RTM_NEWROUTE, flags, body: Buffer.concat([header, ...attributes]) };
}

/** Deletes the agent's route for the destination, regardless of its hop. */
export function deleteAgentRoute(destination: Cidr): Message {
  return deleteRouteOf(ROUTE_PROTOCOL, destination);
}

/** Deletes BIRD's route of the metric for the destination, regardless of its hop. */
export function deleteLearnedRoute(destination: Cidr, metric: number): Message {
  return deleteRouteOf(RTPROT_BIRD, destination, metric);
}

function deleteRouteOf(protocol: number, destination: Cidr, metric?: number): Message {
  const header = routeHeader({ destination, table: RT_TABLE_MAIN, scope: RT_SCOPE_NOWHERE, type: 0, protocol });
  const attributes = [
    attribute(RTA_DST, addressBytes(destination.base)),
    ...(metric === undefined ? [] : [u32Attribute(RTA_PRIORITY, metric)]),
  ];
  return { type: RTM_DELROUTE, flags: NLM_F_ACK, body: Buffer.concat([header, ...attributes]) };
}

/** Deletes exactly this route. */
export function deleteRoute(route: Route): Message {
  const attributes = [
    attribute(RTA_DST, addressBytes(route.destination.base)),
    u32Attribute(RTA_TABLE, route.table),
    ...(route.deviceIndex === undefined ? [] : [u32Attribute(RTA_OIF, route.deviceIndex)]),
    ...(route.priority === undefined ? [] : [u32Attribute(RTA_PRIORITY, route.priority)]),
  ];
  const { destination } = route;
  // Table 0 in the header: the attribute, which may exceed 255, takes precedence.
  const header = routeHeader({ destination, table: 0, scope: RT_SCOPE_NOWHERE, type: 0, protocol: 0 });
  return { type: RTM_DELROUTE, flags: NLM_F_ACK, body: Buffer.concat([header, ...attributes]) };
}

/** Asks for the routing table entry that applies to packets of the host to the address. */
export function lookUpRoute(address: Address): Message {
  return getRoute(address, RTM_F_FIB_MATCH);
}

/** The same with the table in which it is, and for packets that come by a link when `from` is given. */
export function lookUpEntry(
  address: Address,
  from: { readonly source: Address; readonly deviceIndex: number } | undefined,
): Message {
  // Without that flag IPv4 names the main table for an entry of each, and with it IPv6 refuses the question.
  const table = address.family === 4 ? RTM_F_LOOKUP_TABLE : 0;
  return getRoute(address, RTM_F_FIB_MATCH | table, from);
}

/** Asks for the hop of a packet from the host to the address. */
export function lookUpHop(address: Address): Message {
  return getRoute(address, 0);
}

function getRoute(
  address: Address,
  flags: number,
  from?: { readonly source: Address; readonly deviceIndex: number },
): Message {
  const destination = { base: address, prefixBits: bitsOf(address.family) };
  const header = routeHeader({ destination, table: 0, scope: 0, type: 0, protocol: 0 });
  header.writeUInt32LE(flags, 8);
  if (from !== undefined) header.writeUInt8(bitsOf(address.family), 2);
  const incoming =
    from === undefined ? [] : [attribute(RTA_SRC, addressBytes(from.source)), u32Attribute(RTA_IIF, from.deviceIndex)];
  const body = Buffer.concat([header, attribute(RTA_DST, addressBytes(address)), ...incoming]);
  return { type: RTM_GETROUTE, flags: NLM_F_ACK, body };
}

/** Lists the routes of one device, type or protocol. */
export function dumpRoutes(
  family: Family,
  only: { readonly deviceIndex: number } | { readonly type: number } | { readonly protocol: number },
): Message {
  const header = Buffer.alloc(RTMSG_BYTES);
  header.writeUInt8(AF_OF[family], 0);
  if ('protocol' in only) header.writeUInt8(only.protocol, 5);
  if ('type' in only) header.writeUInt8(only.type, 7);
  const filter = 'deviceIndex' in only ? [u32Attribute(RTA_OIF, only.deviceIndex)] : [];
  return { type: RTM_GETROUTE, flags: NLM_F_DUMP, body: Buffer.concat([header, ...filter]) };
}

export function decodeRoute(body: Buffer): Route {
  const family: Family = body.readUInt8(0) === AF_OF[4] ? 4 : 6;
  const attributes = decodeAttributes(body.subarray(RTMSG_BYTES));
  const destination = attributes.get(RTA_DST);
  const gateway = attributes.get(RTA_GATEWAY);
  const source = attributes.get(RTA_PREFSRC);
  const type = body.readUInt8(7);
  return {
    destination: {
      base: destination === undefined ? { family, value: 0n } : addressFromBytes(destination),
      prefixBits: body.readUInt8(1),
    },
    type: ROUTE_TYPES[type] ?? `type ${String(type)}`,
    deviceIndex: u32Of(attributes.get(RTA_OIF)),
    gateway: gateway === undefined ? undefined : addressFromBytes(gateway),
    table: u32Of(attributes.get(RTA_TABLE)) ?? body.readUInt8(4),
    priority: u32Of(attributes.get(RTA_PRIORITY)),
    protocol: body.readUInt8(5),
    isOnLink: (body.readUInt32LE(8) & RTNH_F_ONLINK) !== 0,
    source: source === undefined ? undefined : addressFromBytes(source),
  };
}

/** Returns the indexes of the links of a route, several when it distributes packets. */
export function hopDevices(body: Buffer): readonly number[] {
  const attributes = decodeAttributes(body.subarray(RTMSG_BYTES));
  const device = u32Of(attributes.get(RTA_OIF));
  if (device !== undefined) return [device];
  const hops = attributes.get(RTA_MULTIPATH) ?? Buffer.alloc(0);
  const devices: number[] = [];
  for (let at = 0; at + NEXTHOP_BYTES <= hops.length; at += Math.max(NEXTHOP_BYTES, (hops.readUInt16LE(at) + 3) & ~3))
    devices.push(hops.readInt32LE(at + 4));
  return devices;
}

interface RouteHeader {
  readonly destination: Cidr;
  readonly table: number;
  readonly scope: number;
  readonly type: number;
  readonly protocol?: number;
}

function routeHeader({ destination, table, scope, type, protocol = RTPROT_BOOT }: RouteHeader): Buffer {
  const family = AF_OF[destination.base.family];
  return Buffer.from([family, destination.prefixBits, 0, 0, table, protocol, scope, type, 0, 0, 0, 0]);
}
