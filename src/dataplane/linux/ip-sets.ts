import { existsSync } from 'node:fs';
import type { Addon } from './addon.ts';
import { attribute, decodeAttributes, type Message, NLM_F_DUMP, textOfAttribute } from './netlink.ts';
import { NftSocket } from './nft-socket.ts';

/** The subsystem of netfilter netlink for ipset, and its command that lists sets. */
const LIST = (6 << 8) | 7;
const IPSET_ATTR_PROTOCOL = 1;
const IPSET_ATTR_SETNAME = 2;
const IPSET_ATTR_FLAGS = 6;
const NLA_F_NET_BYTEORDER = 0x4000;
/** The oldest version of the protocol that kernels accept. */
const PROTOCOL = 6;
/** Leaves out what the sets contain. */
const LIST_SETNAME = 1 << 1;
const AF_INET = 2;
const HEADER_BYTES = 4;
const MODULE = '/sys/module/ip_set';

/**
 * Returns the names of the sets of ipset in the network namespace of the calling thread. A request would load the module: without it
 * there are none.
 */
export async function listIpSets(addon: Addon): Promise<readonly string[]> {
  if (!existsSync(MODULE)) return [];
  using socket = NftSocket.open(addon);
  const bodies = await socket.list('list the sets of ipset', listNames());
  return bodies.map((body) => textOfAttribute(decodeAttributes(body.subarray(HEADER_BYTES)), IPSET_ATTR_SETNAME));
}

function listNames(): Message {
  const flags = Buffer.alloc(4);
  flags.writeUInt32BE(LIST_SETNAME);
  const body = Buffer.concat([
    Buffer.from([AF_INET, 0, 0, 0]),
    attribute(IPSET_ATTR_PROTOCOL, Buffer.from([PROTOCOL])),
    attribute(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER, flags),
  ]);
  return { type: LIST, flags: NLM_F_DUMP, body };
}
