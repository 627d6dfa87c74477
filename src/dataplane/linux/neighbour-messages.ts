import { type Address, addressBytes, addressFromBytes } from '../../net/address.ts';
import { type Mac, macBytes, macFromBytes } from '../../net/mac.ts';
import { AF_OF } from './address-messages.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_REPLACE,
  attribute,
  decodeAttributes,
  nested,
  textAttribute,
  u32Attribute,
} from './netlink.ts';

export const RTM_NEWNEIGH = 28;
export const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
const RTM_SETNEIGHTBL = 67;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NDA_IFINDEX = 8;
const NUD_NOARP = 0x40;
const NUD_PERMANENT = 0x80;
const NTF_SELF = 0x02;
const NDMSG_BYTES = 12;
const NDTMSG_BYTES = 4;
const NDTA_NAME = 1;
const NDTA_PARMS = 6;
const NDTPA_IFINDEX = 1;
const NDTPA_PROXY_DELAY = 13;
/** The family of forwarding entries. */
const AF_BRIDGE = 7;

/** A row of either table: a neighbour maps the address to the MAC, a forwarding entry the MAC to the address of a node. */
export interface MacOwner {
  readonly mac: Mac;
  readonly address: Address;
}

export type NeighbourTable = 'neighbours' | 'forwarding';

/** Adds a permanent neighbour, or replaces the entry of the address. */
export function setPermanentNeighbour(index: number, address: Address, mac: Mac): Message {
  const header = neighbourHeader({ family: AF_OF[address.family], index, state: NUD_PERMANENT, flags: 0 });
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  return { type: RTM_NEWNEIGH, flags, body: Buffer.concat([header, ...rowOf({ mac, address })]) };
}

/** Writes net.ipv4.neigh.<link>.proxy_delay. */
export function setArpProxyDelay(index: number, delayMs: number): Message {
  const header = Buffer.alloc(NDTMSG_BYTES);
  header.writeUInt8(AF_OF[4], 0);
  const delay = Buffer.alloc(8);
  delay.writeBigUInt64LE(BigInt(delayMs));
  const parameters = nested(NDTA_PARMS, [u32Attribute(NDTPA_IFINDEX, index), attribute(NDTPA_PROXY_DELAY, delay)]);
  const body = Buffer.concat([header, textAttribute(NDTA_NAME, 'arp_cache'), parameters]);
  return { type: RTM_SETNEIGHTBL, flags: NLM_F_ACK, body };
}

export function deleteNeighbour(index: number, address: Address): Message {
  const header = neighbourHeader({ family: AF_OF[address.family], index, state: 0, flags: 0 });
  const body = Buffer.concat([header, attribute(NDA_DST, addressBytes(address))]);
  return { type: RTM_DELNEIGH, flags: NLM_F_ACK, body };
}

/** Makes a VXLAN device send packets for the MAC to this address only. */
export function setForwarding(index: number, row: MacOwner): Message {
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  return { type: RTM_NEWNEIGH, flags, body: forwardingBody(index, row) };
}

export function deleteForwarding(index: number, row: MacOwner): Message {
  return { type: RTM_DELNEIGH, flags: NLM_F_ACK, body: forwardingBody(index, row) };
}

/** Lists a table of one device, for neighbours of both families. */
export function listNeighbours(index: number, table: NeighbourTable): Message {
  const family = table === 'forwarding' ? AF_BRIDGE : 0;
  const header = neighbourHeader({ family, index: 0, state: 0, flags: 0 });
  const body = Buffer.concat([header, u32Attribute(NDA_IFINDEX, index)]);
  return { type: RTM_GETNEIGH, flags: NLM_F_DUMP, body };
}

/** Decodes a permanent row of a listed table; undefined for learned rows and rows of other devices. */
export function decodeNeighbour(body: Buffer, index: number): MacOwner | undefined {
  const { address, mac, isPermanent } = decodeNote(body);
  if (!isPermanent || neighbourIndex(body) !== index || address === undefined || mac === undefined) return undefined;
  return { address, mac };
}

/** Decodes a row that was added or deleted. The kernel leaves the MAC out of deleted rows. */
export function decodeNote(body: Buffer): {
  readonly table: NeighbourTable;
  readonly address: Address | undefined;
  readonly mac: Mac | undefined;
  readonly isPermanent: boolean;
} {
  const attributes = decodeAttributes(body.subarray(NDMSG_BYTES));
  const [address, mac] = [attributes.get(NDA_DST), attributes.get(NDA_LLADDR)];
  return {
    table: body.readUInt8(0) === AF_BRIDGE ? 'forwarding' : 'neighbours',
    address: address === undefined ? undefined : addressFromBytes(address),
    mac: mac === undefined ? undefined : macFromBytes(mac),
    isPermanent: (body.readUInt16LE(8) & NUD_PERMANENT) !== 0,
  };
}

/** Returns the index of the device to which the row belongs. */
export function neighbourIndex(body: Buffer): number {
  return body.readInt32LE(4);
}

function forwardingBody(index: number, row: MacOwner): Buffer {
  const state = NUD_PERMANENT | NUD_NOARP;
  return Buffer.concat([neighbourHeader({ family: AF_BRIDGE, index, state, flags: NTF_SELF }), ...rowOf(row)]);
}

function rowOf({ mac, address }: MacOwner): readonly Buffer[] {
  return [attribute(NDA_DST, addressBytes(address)), attribute(NDA_LLADDR, macBytes(mac))];
}

interface NeighbourHeader {
  readonly family: number;
  readonly index: number;
  readonly state: number;
  readonly flags: number;
}

function neighbourHeader({ family, index, state, flags }: NeighbourHeader): Buffer {
  const header = Buffer.alloc(NDMSG_BYTES);
  header.writeUInt8(family, 0);
  header.writeInt32LE(index, 4);
  header.writeUInt16LE(state, 8);
  header.writeUInt8(flags, 10);
  return header;
}
