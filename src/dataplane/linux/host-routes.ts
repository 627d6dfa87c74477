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
import { type RouteSocket, refusal } from './route-socket.ts';

const ESRCH = 3;
const EEXIST = 17;
const ENETUNREACH = 101;
/** Route type by the errno with which a lookup ends at it, be it for exactly the address or for a whole range. */
const REFUSED_LOOKUPS: ReadonlyMap<number, number> = new Map([
  [22, 6],
  [113, 7],
  [13, 8],
]);
/** Routes between nodes may be for a single address too; they stand behind those of pods. */
const BETWEEN_NODES: ReadonlySet<number> = new Set([ROUTE_PROTOCOL, RTPROT_BIRD]);
const MOST_ROUTES_PER_ADDRESS = 16;

/** A route of the host for exactly one address that is not between nodes, with the name of its device. */
export interface KernelRoute {
  readonly route: Route;
  readonly deviceName: string | undefined;
}

/** The one that packets for the address take; undefined also where the host refuses them. */
export function findHostRoute(host: RouteSocket, address: Address): KernelRoute | undefined {
  const answer = lookedUp(host, address, host.ask(lookUpRoute(address)));
  return 'route' in answer ? answer : undefined;
}

/**
 * Makes way for a route to `address` through the link named `own`: one that leads to an earlier link of that name, or to
 * a netplug link without an owner, is deleted, unless the mode is only to look. Reports whether there is or was one.
 * `reply` is what a lookup of the address has already brought.
 * @throws kernel/address-in-use when the link of another attachment has the address, kernel/foreign-route when
 * something else of the host has it
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
    // Looking through all routes takes milliseconds where there are thousands; what came after the look is refused when
    // the route is added.
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
    // Gone already: its link was just deleted.
    if (deleted.errno !== 0 && deleted.errno !== ESRCH) {
      throw refusal(`delete the leftover route ${describe(address, found)}`, deleted);
    }
    latest = host.ask(lookUpRoute(address));
  }
  return true;
}

/** @throws kernel/foreign-route when somebody was quicker or holds the address in a way a lookup does not show */
export function addHostRoute(host: RouteSocket, address: Address, link: { index: number; name: string }): void {
  const destination = hostCidr(address);
  const reply = host.ask(addRoute({ destination, deviceIndex: link.index, gateway: undefined }));
  if (reply.errno === 0) return;
  const holder = reply.errno === EEXIST ? findRefusingRoute(host, address, REFUSING_TYPES) : undefined;
  if (holder !== undefined) throw foreignRoute(address, holder);
  throw refusal(`route ${formatCidr(destination)} to interface "${link.name}" of the host`, reply);
}

/** Where packets for the address go: `refusedBy` is the type of a route for it or for a range around it. */
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
    hint: 'Find out what uses the address on the host, and remove its route or take the address out of the pool',
    facts: { address: formatAddress(address), device: found.deviceName, type: found.route.type },
  });
}

function describe(address: Address, { route, deviceName }: KernelRoute): string {
  const type = route.type === 'unicast' ? 'route' : `${route.type} route`;
  const device = deviceName === undefined ? '' : ` on device "${deviceName}"`;
  return `${type} ${formatCidr(hostCidr(address))}${device}`;
}
