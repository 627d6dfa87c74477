import { AF_OF } from './address-messages.ts';
import { type Message, NLM_F_ACK, attribute, decodeAttributes, u32Of } from './netlink.ts';

const RTM_GETNETCONF = 82;
const NETCONFMSG_BYTES = 4;
const NETCONFA_IFINDEX = 1;
const NETCONFA_FORWARDING = 2;
const ALL_LINKS = -1;

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
