import { expect, it } from 'vitest';
import { confirmNetnsId, IFINFO_BYTES, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO } from './link-messages.ts';
import { listConnectedLinks } from './links.ts';
import { type Message, nested, type Reply, textAttribute, u32Attribute } from './netlink.ts';

const IFLA_LINK_NETNSID = 37;
/** Bytes that the kernel counts for one reply, and the receive buffer of a socket, `net.core.rmem_default`. */
const [REPLY_BYTES, BUFFER_BYTES] = [960, 212_992];
const ENOENT = 2;

function linkTo(netnsId: number): Buffer {
  return Buffer.concat([
    Buffer.alloc(IFINFO_BYTES),
    textAttribute(IFLA_IFNAME, `npl${String(netnsId).padStart(11, '0')}`),
    nested(IFLA_LINKINFO, [textAttribute(IFLA_INFO_KIND, 'veth')]),
    u32Attribute(IFLA_LINK_NETNSID, netnsId),
  ]);
}

it('links to many namespaces are asked for in exchanges whose replies fit the socket', () => {
  const ids = Array.from({ length: 1000 }, (_, index) => index);
  const ended = new Set([0, 64, 999].map((id) => confirmNetnsId(id).body.toString('hex')));
  let most = 0;
  const reply = ({ body }: Message): Reply => {
    const errno = ended.has(body.toString('hex')) ? ENOENT : 0;
    return { errno, explanation: undefined, bodies: [], isInterrupted: false };
  };
  const connected = listConnectedLinks({
    list: () => ids.map(linkTo),
    askAll: (messages) => {
      most = Math.max(most, messages.length);
      const [first, ...rest] = messages;
      return [reply(first), ...rest.map(reply)];
    },
  });
  expect(most * REPLY_BYTES).toBeLessThan(BUFFER_BYTES);
  expect(connected).toHaveLength(997);
});
