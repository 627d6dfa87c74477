import { type Address, type Family, addressBytes, addressFromBytes, bitsOf } from '../../net/address.ts';
import type { Mac } from '../../net/mac.ts';
import { macBytes } from '../../net/mac.ts';
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
} from './netlink.ts';

const RTM_NEWADDR = 20;
const RTM_GETADDR = 22;
const RTM_NEWNEIGH = 28;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_FLAGS = 8;
const IFA_F_NODAD = 0x02;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NUD_PERMANENT = 0x80;
const IFADDR_BYTES = 8;
const SCOPE_GLOBAL = 0;
const SCOPE_LINK = 253;

export const AF_OF: Readonly<Record<Family, number>> = { 4: 2, 6: 10 };

/** An address as a link carries it. */
export interface LinkAddress {
  readonly address: Address;
  readonly prefixBits: number;
  readonly isGlobal: boolean;
}

/** Usable at once: nobody else can have an address that the address manager gave to this link alone. */
export function addAddress(index: number, address: Address, prefixBits: number = bitsOf(address.family)): Message {
  const isLinkLocal = address.family === 6 && address.value >> 118n === 0x3fan;
  const bytes = addressBytes(address);
  const header = Buffer.from([
    AF_OF[address.family],
    prefixBits,
    0,
    isLinkLocal ? SCOPE_LINK : SCOPE_GLOBAL,
    0,
    0,
    0,
    0,
  ]);
  header.writeUInt32LE(index, 4);
  const attributes = [attribute(IFA_LOCAL, bytes), attribute(IFA_ADDRESS, bytes), u32Attribute(IFA_FLAGS, IFA_F_NODAD)];
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  return { type: RTM_NEWADDR, flags, body: Buffer.concat([header, ...attributes]) };
}

export function listAddresses(index: number, family: Family): Message {
  const body = Buffer.alloc(IFADDR_BYTES);
  body.writeUInt8(AF_OF[family], 0);
  body.writeUInt32LE(index, 4);
  return { type: RTM_GETADDR, flags: NLM_F_DUMP, body };
}

export function decodeAddress(body: Buffer): LinkAddress | undefined {
  const attributes = decodeAttributes(body.subarray(IFADDR_BYTES));
  const bytes = attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS);
  if (bytes === undefined) return undefined;
  return {
    address: addressFromBytes(bytes),
    prefixBits: body.readUInt8(1),
    isGlobal: body.readUInt8(3) === SCOPE_GLOBAL,
  };
}

/** A neighbour that never has to be asked for. */
export function setPermanentNeighbour(index: number, address: Address, mac: Mac): Message {
  const header = Buffer.alloc(12);
  header.writeUInt8(AF_OF[address.family], 0);
  header.writeInt32LE(index, 4);
  header.writeUInt16LE(NUD_PERMANENT, 8);
  const attributes = [attribute(NDA_DST, addressBytes(address)), attribute(NDA_LLADDR, macBytes(mac))];
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  return { type: RTM_NEWNEIGH, flags, body: Buffer.concat([header, ...attributes]) };
}
