import { HOST_LINK_PREFIX, type HostLink } from '../kernel.ts';
import { addressesInAlias, decodeAlias } from '../link-alias.ts';
import { type Link, decodeLink, getLinkByName, listLinks } from './link-messages.ts';
import type { Reply } from './netlink.ts';
import { type RouteSocket, refusal } from './route-socket.ts';

const ENODEV = 19;

/** Returns the link of that name in the namespace of the socket. */
export function findLink(socket: RouteSocket, name: string): Link | undefined {
  return linkIn(socket.ask(getLinkByName(name)), name);
}

/** Like `findLink`, off the main thread, because a lookup waits for running deletions of links. */
export async function findLinkOnWorker(socket: RouteSocket, name: string): Promise<Link | undefined> {
  const [reply] = await socket.askOnWorker([getLinkByName(name)]);
  return linkIn(reply, name);
}

/** Returns every host-side link of netplug in the namespace of the socket, ordered by name. */
export function listHostLinks(socket: RouteSocket): readonly HostLink[] {
  const links = socket.list('list the interfaces of the host', listLinks()).map(decodeLink);
  return links
    .filter(isHostSide)
    .map(toHostLink)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

export function isHostSide({ name, kind }: Link): boolean {
  return kind === 'veth' && name.startsWith(HOST_LINK_PREFIX);
}

export function toHostLink({ name, index, mac, mtu, isUp, alias }: Link): HostLink {
  return { name, index, mac, mtu, isUp, owner: decodeAlias(alias), addresses: addressesInAlias(alias) };
}

/** Reads the answer to `getLinkByName`. */
export function linkIn(reply: Reply, name: string): Link | undefined {
  if (reply.errno === ENODEV) return undefined;
  const [body] = reply.bodies;
  if (reply.errno !== 0 || body === undefined) throw refusal(`look up interface "${name}"`, reply);
  return decodeLink(body);
}
