import { NetplugError } from '../../base/errors.ts';
import { type Address, bitsOf, formatAddress } from '../../net/address.ts';
import { formatCidr, hostCidr, sameCidr } from '../../net/cidr.ts';
import { ROUTE_PROTOCOL } from '../host-network.ts';
import { addressInUse, HOST_LINK_PREFIX, type LinkOwner } from '../kernel.ts';
import { decodeAlias } from '../link-alias.ts';
import { decodeLink, getLinkByIndex } from './link-messages.ts';
import { findLink } from './links.ts';
import type { Reply } from './netlink.ts';
import {
  REFUSING_TYPES,
  RTPROT_BIRD,
  type Route,
  addRoute,
  decodeRoute,
  deleteRoute,
  dumpRoutes,
  lookUpRoute,
} from './route-messages.ts';
import { type Request, type RouteSocket, refusal } from './route-socket.ts';

const ESRCH = 3;
const EEXIST = 17;
const ENETUNREACH = 101;
/** Route type by the errno that a lookup returns when it ends at such a route, for the address or for a range around it. */
const REFUSED_LOOKUPS: ReadonlyMap<number, number> = new Map([
  [22, 6],
  [113, 7],
  [13, 8],
]);
/** Protocols of routes between nodes. Those may also be for a single address, and have a higher metric than routes to pods. */
const BETWEEN_NODES: ReadonlySet<number> = new Set([ROUTE_PROTOCOL, RTPROT_BIRD]);
const MOST_ROUTES_PER_ADDRESS = 16;

/** A route of the host for exactly one address that is not between nodes, with the name of its device. */
export interface KernelRoute {
  readonly route: Route;
  readonly deviceName: string | undefined;
}

/** Returns the host's route for exactly the address; undefined when packets take another route or are refused. */
export function findHostRoute(host: RouteSocket, address: Address): KernelRoute | undefined {
  const answer = lookedUp(host, address, host.ask(lookUpRoute(address)));
  return 'route' in answer ? answer : undefined;
}

/**
 * Deletes stale routes to `address`: those that lead to an earlier link of the name `own`, or to a netplug link without
 * an owner. In mode `look` it deletes nothing. Reports whether there was such a route. `reply` is the answer to an
 * earlier lookup of the address.
 * @throws kernel/address-in-use when the link of another attachment has the address, kernel/foreign-route when the host
 * has another route for it
 */
export function clearHostRoute(
  host: RouteSocket,
  address: Address,
  {
    mode,
    own,
    reply = host.ask(lookUpRoute(address)),
  }: { readonly mode: 'look' | 'delete'; readonly own: string; readonly reply?: Reply },
): boolean {
  let latest = reply;
  for (let round = 0; round < MOST_ROUTES_PER_ADDRESS; round += 1) {
    const answer = lookedUp(host, address, latest);
    // Listing thousands of routes takes milliseconds, so mode `delete` skips it; adding the route then reports a conflict.
    const refusing =
      mode === 'look' && 'refusedBy' in answer ? findRefusingRoute(host, address, [answer.refusedBy]) : undefined;
    const found = 'route' in answer ? answer : refusing;
    if (found === undefined) return round > 0;
    if (found.route.type !== 'unicast' || found.deviceName?.startsWith(HOST_LINK_PREFIX) !== true) {
      throw foreignRoute(address, found);
    }
    const user = found.deviceName === own ? undefined : ownerOf(host, found.deviceName);
    if (user !== undefined) throw addressInUse(address, found.deviceName, user);
    if (mode === 'look') return true;
    const deleted = host.ask(deleteRoute(found.route));
    // ESRCH: the route was removed together with its link.
    if (deleted.errno !== 0 && deleted.errno !== ESRCH) {
      throw refusal(`delete the leftover route ${describe(address, found)}`, deleted);
    }
    latest = host.ask(lookUpRoute(address));
  }
  return true;
}

/**
 * Routes the addresses to the link. Sends `last` with them, if given.
 * @throws kernel/foreign-route when the host has another route for an address, which a lookup may not show
 */
export function addHostRoutes(
  host: RouteSocket,
  addresses: readonly Address[],
  { link, last = [] }: { readonly link: { readonly index: number; readonly name: string }; readonly last?: Request[] },
): void {
  const routes = addresses.map((address) =>
    addRoute({ destination: hostCidr(address), deviceIndex: link.index, gateway: undefined }),
  );
  const [first, ...rest] = [...routes, ...last.map(({ message }) => message)];
  if (first === undefined) return;
  const replies = host.askAll([first, ...rest]);
  for (const [index, address] of addresses.entries()) {
    const reply = replies[index];
    if (reply === undefined || reply.errno === 0) continue;
    const holder = reply.errno === EEXIST ? findRefusingRoute(host, address, REFUSING_TYPES) : undefined;
    if (holder !== undefined) throw foreignRoute(address, holder);
    throw refusal(`route ${formatCidr(hostCidr(address))} to interface "${link.name}" of the host`, reply);
  }
  for (const [index, { what }] of last.entries()) {
    const reply = replies[addresses.length + index];
    if (reply !== undefined && reply.errno !== 0) throw refusal(what, reply);
  }
}

/** Decodes a lookup of the address. `refusedBy` is the type of a refusing route for the address or a range around it. */
function lookedUp(
  host: RouteSocket,
  address: Address,
  reply: Reply,
): KernelRoute | { readonly refusedBy: number } | { readonly other: true } {
  const [body] = reply.bodies;
  if (reply.errno === 0 && body !== undefined) {
    const route = decodeRoute(body);
    const isExact = route.destination.prefixBits === bitsOf(address.family);
    if (!isExact || BETWEEN_NODES.has(route.protocol)) return { other: true };
    return { route, deviceName: route.deviceIndex === undefined ? undefined : nameOf(host, route.deviceIndex) };
  }
  if (reply.errno === ENETUNREACH) return { other: true };
  const refusedBy = REFUSED_LOOKUPS.get(reply.errno);
  if (refusedBy !== undefined) return { refusedBy };
  throw refusal(`look up the route of the host to ${formatAddress(address)}`, reply);
}

function findRefusingRoute(host: RouteSocket, address: Address, types: readonly number[]): KernelRoute | undefined {
  for (const type of types) {
    const routes = host.list('list the routes of the host', dumpRoutes(address.family, { type })).map(decodeRoute);
    const exact = routes.find(
      ({ destination, protocol }) => sameCidr(destination, hostCidr(address)) && !BETWEEN_NODES.has(protocol),
    );
    if (exact !== undefined) return { route: exact, deviceName: undefined };
  }
  return undefined;
}

function nameOf(host: RouteSocket, index: number): string {
  const [body] = host.ask(getLinkByIndex(index)).bodies;
  return body === undefined ? `index ${String(index)}` : decodeLink(body).name;
}

function ownerOf(host: RouteSocket, linkName: string): LinkOwner | undefined {
  const link = findLink(host, linkName);
  return link === undefined ? undefined : decodeAlias(link.alias);
}

function foreignRoute(address: Address, found: KernelRoute): NetplugError {
  const what = `Cannot route ${formatAddress(address)} to the pod: the host already has ${describe(address, found)}`;
  return new NetplugError('kernel/foreign-route', what, {
    hint: 'Find the program that uses the address on the host, and remove its route or exclude the address from the pool',
    facts: { address: formatAddress(address), device: found.deviceName, type: found.route.type },
  });
}

function describe(address: Address, { route, deviceName }: KernelRoute): string {
  const type = route.type === 'unicast' ? 'route' : `${route.type} route`;
  const device = deviceName === undefined ? '' : ` on device "${deviceName}"`;
  return `${type} ${formatCidr(hostCidr(address))}${device}`;
}
