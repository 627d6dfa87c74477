import { type Address, type Family, addressBytes, addressFromBytes, bitsOf } from '../../net/address.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  attribute,
  decodeAttributes,
  u32Attribute,
  u32Of,
} from './netlink.ts';

export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_FLAGS = 8;
const IFA_F_NODAD = 0x02;
const IFA_F_DADFAILED = 0x08;
const IFA_F_DEPRECATED = 0x20;
const IFA_F_TENTATIVE = 0x40;
/** For IPv6; for IPv4 the same bit marks a secondary address of a subnet. */
const IFA_F_TEMPORARY = 0x01;
const IFADDR_BYTES = 8;
const SCOPE_GLOBAL = 0;
const SCOPE_LINK = 253;

export const AF_OF: Readonly<Record<Family, number>> = { 4: 2, 6: 10 };

/** An address of a link. */
export interface LinkAddress {
  readonly address: Address;
  readonly prefixBits: number;
  readonly isGlobal: boolean;
  readonly deviceIndex: number;
  /** Whether the node may publish it: not tentative, not deprecated and not temporary. */
  readonly isLasting: boolean;
}

/** Adds an address without duplicate detection, because the address manager assigns it to this link alone. */
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

export function deleteAddress(
  index: number,
  { address, prefixBits }: Pick<LinkAddress, 'address' | 'prefixBits'>,
): Message {
  const header = Buffer.alloc(IFADDR_BYTES);
  header.writeUInt8(AF_OF[address.family], 0);
  header.writeUInt8(prefixBits, 1);
  header.writeUInt32LE(index, 4);
  const body = Buffer.concat([header, attribute(IFA_LOCAL, addressBytes(address))]);
  return { type: RTM_DELADDR, flags: NLM_F_ACK, body };
}

/** Lists the addresses of one device, or of all devices with index 0. */
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
  const flags = u32Of(attributes.get(IFA_FLAGS)) ?? body.readUInt8(2);
  const temporary = bytes.length === 4 ? 0 : IFA_F_TEMPORARY;
  return {
    address: addressFromBytes(bytes),
    prefixBits: body.readUInt8(1),
    isGlobal: body.readUInt8(3) === SCOPE_GLOBAL,
    deviceIndex: body.readUInt32LE(4),
    isLasting: (flags & (IFA_F_DADFAILED | IFA_F_DEPRECATED | IFA_F_TENTATIVE | temporary)) === 0,
  };
}
