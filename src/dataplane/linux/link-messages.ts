import { AF_OF } from './address-messages.ts';
import { HOST_MAC, type Mac, macBytes, macFromBytes } from '../../net/mac.ts';
import {
  type Message,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_ECHO,
  NLM_F_EXCL,
  attribute,
  decodeAttributes,
  nested,
  attributesIn,
  textAttribute,
  textOfAttribute,
  u32Attribute,
  u32Of,
} from './netlink.ts';

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
const RTM_SETLINK = 19;
const RTM_GETNSID = 90;
export const IFINFO_BYTES = 16;
const IFF_UP = 0x1;
const IFF_LOOPBACK = 0x8;

export const IFLA_ADDRESS = 1;
export const IFLA_IFNAME = 3;
export const IFLA_MTU = 4;
const IFLA_LINK = 5;
const IFLA_OPERSTATE = 16;
export const IFLA_LINKINFO = 18;
const IFLA_IFALIAS = 20;
const IFLA_AF_SPEC = 26;
const IFLA_GROUP = 27;
const IFLA_NET_NS_FD = 28;
const IFLA_EXT_MASK = 29;
const IFLA_NUM_TX_QUEUES = 31;
const IFLA_NUM_RX_QUEUES = 32;
const IFLA_LINK_NETNSID = 37;
const IF_OPER_UP = 6;
export const IFLA_INFO_KIND = 1;
export const IFLA_INFO_DATA = 2;
const VETH_INFO_PEER = 1;
const IFLA_INET_CONF = 1;
const RTEXT_FILTER_SKIP_STATS = 8;
const NETNSA_NSID = 1;
const NETNSA_FD = 3;

/** The loopback interface has this index in every namespace. */
export const LOOPBACK_INDEX = 1;

/** One link as the kernel reports it. */
export interface Link {
  readonly index: number;
  readonly name: string;
  readonly kind: string;
  readonly mac: Mac;
  readonly mtu: number;
  readonly isUp: boolean;
  readonly isLoopback: boolean;
  /** Whether the kernel has detected that both ends are up; until then the link drops packets. */
  readonly hasCarrier: boolean;
  readonly alias: string;
  readonly txQueues: number;
  readonly rxQueues: number;
  /** Index of the other end of a veth, in the namespace `peerNetnsId`. */
  readonly peerIndex: number | undefined;
  /** Id of the peer's namespace in the namespace of the link; undefined when both ends are in the same one. */
  readonly peerNetnsId: number | undefined;
}

export interface VethPair {
  readonly hostLinkName: string;
  readonly podLinkName: string;
  readonly podMac: Mac;
  readonly mtu: number | undefined;
  readonly queues: number;
  /** Namespace in which the pod's end is created. Moving it there later would take tens of milliseconds. */
  readonly podNetnsFd: number;
  /** Chosen by the kernel unless given. */
  readonly hostIndex?: number;
}

/** Creates a pair. Newer kernels reply with the host's end. */
export function createVethPair(pair: VethPair): Message {
  const both = [
    u32Attribute(IFLA_NUM_TX_QUEUES, pair.queues),
    u32Attribute(IFLA_NUM_RX_QUEUES, pair.queues),
    ...(pair.mtu === undefined ? [] : [u32Attribute(IFLA_MTU, pair.mtu)]),
  ];
  const podEnd = nested(VETH_INFO_PEER, [
    ifInfo({}),
    textAttribute(IFLA_IFNAME, pair.podLinkName),
    attribute(IFLA_ADDRESS, macBytes(pair.podMac)),
    u32Attribute(IFLA_NET_NS_FD, pair.podNetnsFd),
    ...both,
  ]);
  const body = [
    ifInfo(pair.hostIndex === undefined ? {} : { index: pair.hostIndex }),
    textAttribute(IFLA_IFNAME, pair.hostLinkName),
    attribute(IFLA_ADDRESS, macBytes(HOST_MAC)),
    ...both,
    nested(IFLA_LINKINFO, [textAttribute(IFLA_INFO_KIND, 'veth'), nested(IFLA_INFO_DATA, [podEnd])]),
  ];
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ECHO;
  return { type: RTM_NEWLINK, flags, body: Buffer.concat(body) };
}

export function setLinkAlias(index: number, alias: string): Message {
  const body = Buffer.concat([ifInfo({ index }), attribute(IFLA_IFALIAS, Buffer.from(alias))]);
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body };
}

/** Writes settings of net.ipv4.conf.<link>, each by its IPV4_DEVCONF number. */
export function setLinkIpv4Conf(index: number, settings: ReadonlyMap<number, number>): Message {
  const conf = nested(
    IFLA_INET_CONF,
    [...settings].map(([setting, value]) => u32Attribute(setting, value)),
  );
  const body = Buffer.concat([ifInfo({ index }), nested(IFLA_AF_SPEC, [nested(AF_OF[4], [conf])])]);
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body };
}

export function setLinkMtu(index: number, mtu: number): Message {
  const body = Buffer.concat([ifInfo({ index }), u32Attribute(IFLA_MTU, mtu)]);
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body };
}

export function setLinkMac(index: number, mac: Mac): Message {
  const body = Buffer.concat([ifInfo({ index }), attribute(IFLA_ADDRESS, macBytes(mac))]);
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body };
}

export function setLinkUp(index: number): Message {
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body: ifInfo({ index, isUp: true }) };
}

export function setLinkGroup(index: number, group: number): Message {
  const body = Buffer.concat([ifInfo({ index }), u32Attribute(IFLA_GROUP, group)]);
  return { type: RTM_SETLINK, flags: NLM_F_ACK, body };
}

export function deleteLink(index: number): Message {
  return { type: RTM_DELLINK, flags: NLM_F_ACK, body: ifInfo({ index }) };
}

/** Deletes every link of the group, for which the kernel sleeps only once. */
export function deleteLinkGroup(group: number): Message {
  return { type: RTM_DELLINK, flags: NLM_F_ACK, body: Buffer.concat([ifInfo({}), u32Attribute(IFLA_GROUP, group)]) };
}

export function getLinkByName(name: string): Message {
  const body = Buffer.concat([ifInfo({}), textAttribute(IFLA_IFNAME, name), skipStatistics()]);
  return { type: RTM_GETLINK, flags: NLM_F_ACK, body };
}

export function getLinkByIndex(index: number): Message {
  return { type: RTM_GETLINK, flags: NLM_F_ACK, body: Buffer.concat([ifInfo({ index }), skipStatistics()]) };
}

export function listLinks(): Message {
  return { type: RTM_GETLINK, flags: NLM_F_DUMP, body: Buffer.concat([ifInfo({}), skipStatistics()]) };
}

/** Asks for the id of the namespace behind `fd` in the namespace of the socket. */
export function getNetnsId(fd: number): Message {
  return { type: RTM_GETNSID, flags: NLM_F_ACK, body: Buffer.concat([Buffer.alloc(4), u32Attribute(NETNSA_FD, fd)]) };
}

/** Asks for the namespace with the id in the namespace of the socket; the kernel refuses when there is none, or it is ending. */
export function confirmNetnsId(id: number): Message {
  return { type: RTM_GETNSID, flags: NLM_F_ACK, body: Buffer.concat([Buffer.alloc(4), u32Attribute(NETNSA_NSID, id)]) };
}

/** Returns the id; undefined when the namespace has none, because no link leads to it. */
export function decodeNetnsId(body: Buffer): number | undefined {
  const id = decodeAttributes(body.subarray(4)).get(NETNSA_NSID)?.readInt32LE(0);
  return id === undefined || id < 0 ? undefined : id;
}

export function decodeLink(body: Buffer): Link {
  const attributes = decodeAttributes(body.subarray(IFINFO_BYTES));
  const peerIndex = u32Of(attributes.get(IFLA_LINK));
  return {
    index: body.readInt32LE(4),
    name: textOfAttribute(attributes, IFLA_IFNAME),
    kind: textOfAttribute(attributesIn(attributes, IFLA_LINKINFO), IFLA_INFO_KIND),
    mac: macFromBytes(attributes.get(IFLA_ADDRESS) ?? Buffer.alloc(0)),
    mtu: u32Of(attributes.get(IFLA_MTU)) ?? 0,
    isUp: (body.readUInt32LE(8) & IFF_UP) !== 0,
    isLoopback: (body.readUInt32LE(8) & IFF_LOOPBACK) !== 0,
    hasCarrier: attributes.get(IFLA_OPERSTATE)?.readUInt8(0) === IF_OPER_UP,
    alias: textOfAttribute(attributes, IFLA_IFALIAS),
    txQueues: u32Of(attributes.get(IFLA_NUM_TX_QUEUES)) ?? 1,
    rxQueues: u32Of(attributes.get(IFLA_NUM_RX_QUEUES)) ?? 1,
    peerIndex: peerIndex === 0 ? undefined : peerIndex,
    peerNetnsId: attributes.get(IFLA_LINK_NETNSID)?.readInt32LE(0),
  };
}

export function ifInfo({ index = 0, isUp = false }: { readonly index?: number; readonly isUp?: boolean }): Buffer {
  const bytes = Buffer.alloc(IFINFO_BYTES);
  bytes.writeInt32LE(index, 4);
  if (isUp) {
    bytes.writeUInt32LE(IFF_UP, 8);
    bytes.writeUInt32LE(IFF_UP, 12);
  }
  return bytes;
}

function skipStatistics(): Buffer {
  return u32Attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
}
