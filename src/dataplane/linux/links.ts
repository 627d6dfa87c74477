import { slicesOf } from '../../base/slices.ts';
import { HOST_LINK_PREFIX, type HostLink } from '../kernel.ts';
import { addressesInAlias, decodeAlias } from '../link-alias.ts';
import { type Link, confirmNetnsId, decodeLink, getLinkByName, listLinks } from './link-messages.ts';
import type { Reply } from './netlink.ts';
import { type RouteSocket, refusal } from './route-socket.ts';

const ENODEV = 19;
/** Each reply takes about 1 kB of the receive buffer of the socket, which has 208 kB by default; all come before one is read. */
const ASKED_AT_ONCE = 64;

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
  return byName(socket.list('list the interfaces of the host', listLinks()).map(decodeLink).filter(isHostSide));
}

/** See Kernel.listConnectedLinks. */
export function listConnectedLinks(socket: Pick<RouteSocket, 'list' | 'askAll'>): readonly HostLink[] {
  const links = socket.list('list the interfaces of the host', listLinks()).map(decodeLink).filter(isHostSide);
  const ids = [...new Set(links.flatMap(({ peerNetnsId = -1 }) => (peerNetnsId < 0 ? [] : peerNetnsId)))];
  // The kernel refuses the id of a namespace that nothing holds any more, also before it has removed the links.
  const living = new Set(slicesOf(ids, ASKED_AT_ONCE).flatMap((slice) => confirmedOf(socket, slice)));
  return byName(links.filter(({ peerNetnsId }) => peerNetnsId !== undefined && living.has(peerNetnsId)));
}

/** Returns those of the ids whose namespaces something holds. */
function confirmedOf(socket: Pick<RouteSocket, 'askAll'>, ids: readonly number[]): readonly number[] {
  const [first, ...rest] = ids.map(confirmNetnsId);
  if (first === undefined) return [];
  const replies = socket.askAll([first, ...rest]);
  return ids.filter((_, index) => replies[index]?.errno === 0);
}

export function isHostSide({ name, kind }: Link): boolean {
  return kind === 'veth' && name.startsWith(HOST_LINK_PREFIX);
}

function byName(links: readonly Link[]): readonly HostLink[] {
  return links.map(toHostLink).sort((a, b) => (a.name < b.name ? -1 : 1));
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
