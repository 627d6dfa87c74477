import { AF_OF } from './address-messages.ts';
import { type Message, NLM_F_ACK, attribute, decodeAttributes, u32Of } from './netlink.ts';

/** Settings of a link, or of the whole namespace, in a message that the kernel sends on its own. */
export const RTM_NEWNETCONF = 80;
const RTM_GETNETCONF = 82;
const NETCONFMSG_BYTES = 4;
const NETCONFA_IFINDEX = 1;
const NETCONFA_FORWARDING = 2;
const NETCONFA_RP_FILTER = 3;
const NETCONFA_PROXY_NEIGH = 5;
/** In place of an index: the settings of the whole namespace. */
export const ALL_LINKS = -1;

/** Asks for the IPv4 settings of the whole namespace, which needs no access to its /proc. */
export function getIpv4Netconf(): Message {
  const header = Buffer.alloc(NETCONFMSG_BYTES);
  header.writeUInt8(AF_OF[4], 0);
  const index = Buffer.alloc(4);
  index.writeInt32LE(ALL_LINKS);
  return { type: RTM_GETNETCONF, flags: NLM_F_ACK, body: Buffer.concat([header, attribute(NETCONFA_IFINDEX, index)]) };
}

/** Returns the value of net.ipv4.ip_forward. */
export function decodeIpForward(body: Buffer): number | undefined {
  return u32Of(decodeAttributes(body.subarray(NETCONFMSG_BYTES)).get(NETCONFA_FORWARDING));
}

/** Settings that the kernel reports when they change; only those that are in the message. */
export interface ReportedSettings {
  /** The index of a link, `ALL_LINKS`, or another negative number for links to come. */
  readonly index: number;
  readonly forwarding: number | undefined;
  readonly rpFilter: number | undefined;
  /** `proxy_arp` or `proxy_ndp`. */
  readonly proxyNeigh: number | undefined;
}

export function decodeReportedSettings(body: Buffer): ReportedSettings {
  const attributes = decodeAttributes(body.subarray(NETCONFMSG_BYTES));
  return {
    index: (u32Of(attributes.get(NETCONFA_IFINDEX)) ?? 0) | 0,
    forwarding: u32Of(attributes.get(NETCONFA_FORWARDING)),
    rpFilter: u32Of(attributes.get(NETCONFA_RP_FILTER)),
    proxyNeigh: u32Of(attributes.get(NETCONFA_PROXY_NEIGH)),
  };
}
