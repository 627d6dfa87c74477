import type { Address } from '../../net/address.ts';
import type { Cidr } from '../../net/cidr.ts';
import {
  type HostNetwork,
  type HostInterface,
  type HostPath,
  type HostRoute,
  type LinkAddresses,
  ROUTE_PROTOCOL,
  type TunnelPeer,
} from '../host-network.ts';
import { type LinkAddress, decodeAddress, listAddresses } from './address-messages.ts';
import { type Link, decodeLink, getLinkByIndex, listLinks } from './link-messages.ts';
import { findLinkOnWorker, isHostSide } from './links.ts';
import { type MacOwner, type NeighbourTable, decodeNeighbour, listNeighbours } from './neighbour-messages.ts';
import {
  RTN_UNICAST,
  RTPROT_BIRD,
  RT_TABLE_LOCAL,
  RT_TABLE_MAIN,
  type Route,
  decodeRoute,
  dumpRoutes,
  hopDevices,
  lookUpHop,
} from './route-messages.ts';
import { type RouteSocket, refusal } from './route-socket.ts';
import { isTunnel } from './tunnel-owner.ts';

/** EACCES, EINVAL, ENETUNREACH, EHOSTUNREACH: there is no route, or it refuses packets. */
const NO_ROUTE: ReadonlySet<number> = new Set([13, 22, 101, 113]);

/** See HostNetwork.listInterfaces. */
export async function listInterfaces(socket: RouteSocket): Promise<readonly HostInterface[]> {
  const links = await listLinksOnWorker(socket);
  const usable = Map.groupBy(
    (await listAllAddresses(socket)).filter(({ isGlobal, isLasting }) => isGlobal && isLasting),
    ({ deviceIndex }) => deviceIndex,
  );
  return links
    .filter((link) => !isHostSide(link) && !isTunnel(link))
    .map(({ index, name, mtu, isUp, isLoopback }) => ({
      name,
      mtu,
      isUp,
      isLoopback,
      addresses: (usable.get(index) ?? []).map(({ address, prefixBits }) => ({ address, prefixBits })),
    }));
}

/** See HostNetwork.listAddresses. */
export async function listLinkAddresses(socket: RouteSocket): Promise<readonly LinkAddresses[]> {
  const links = await listLinksOnWorker(socket);
  const found = Map.groupBy(await listAllAddresses(socket), ({ deviceIndex }) => deviceIndex);
  return links.map(({ index, name }) => ({ name, addresses: (found.get(index) ?? []).map(({ address }) => address) }));
}

/** See HostNetwork.newestPodLink. */
export async function newestPodLink(socket: RouteSocket): Promise<number | undefined> {
  const indexes = (await listLinksOnWorker(socket)).filter(isHostSide).map(({ index }) => index);
  return indexes.length === 0 ? undefined : Math.max(...indexes);
}

async function listAllAddresses(socket: RouteSocket): Promise<readonly LinkAddress[]> {
  const bodies = await socket.listFamiliesOnWorker('list the addresses of the host', (family) =>
    listAddresses(0, family),
  );
  return bodies.map(decodeAddress).filter((found) => found !== undefined);
}

/** See HostNetwork.lookUp. */
export async function lookUp(socket: RouteSocket, address: Address): ReturnType<HostNetwork['lookUp']> {
  const [reply] = await socket.askOnWorker([lookUpHop(address)]);
  if (NO_ROUTE.has(reply.errno)) return undefined;
  const [body] = reply.bodies;
  if (reply.errno !== 0 || body === undefined) throw refusal('look up a route of the host', reply);
  const { deviceIndex, source } = decodeRoute(body);
  if (deviceIndex === undefined) return undefined;
  const [link] = await socket.askOnWorker([getLinkByIndex(deviceIndex)]);
  const [linkBody] = link.bodies;
  return linkBody === undefined ? undefined : { device: decodeLink(linkBody).name, source };
}

/** See HostNetwork.listPaths. */
export async function listPaths(socket: RouteSocket): Promise<readonly HostPath[]> {
  const names = new Map((await listLinksOnWorker(socket)).map(({ index, name }) => [index, name]));
  const bodies = await socket.listFamiliesOnWorker('list the routes of the host', (family) =>
    dumpRoutes(family, { type: RTN_UNICAST }),
  );
  return bodies.flatMap((body): HostPath[] => {
    const { destination, table, type, gateway } = decodeRoute(body);
    // Older kernels do not filter.
    if (type !== 'unicast' || table === RT_TABLE_LOCAL) return [];
    const devices = hopDevices(body).map((index) => names.get(index) ?? `index ${String(index)}`);
    const isConnected = gateway === undefined && devices.length === 1 && destination.prefixBits > 0;
    return [{ destination, table, devices, isConnected }];
  });
}

/** See HostNetwork.listRoutes. */
export async function listRoutes(socket: RouteSocket): Promise<readonly HostRoute[]> {
  const names = new Map((await listLinksOnWorker(socket)).map(({ index, name }) => [index, name]));
  const routes = await listRoutesOf(socket, ROUTE_PROTOCOL);
  return routes.flatMap((route) => toHostRoute(route, (index) => names.get(index)) ?? []);
}

/** See HostNetwork.listLearnedDestinations. */
export async function listLearnedDestinations(socket: RouteSocket, metric: number): Promise<readonly Cidr[]> {
  const routes = await listRoutesOf(socket, RTPROT_BIRD);
  return routes.filter(({ priority }) => priority === metric).map(({ destination }) => destination);
}

/** See HostNetwork.listLearnedDevices. */
export async function listLearnedDevices(socket: RouteSocket, metric: number): Promise<readonly string[]> {
  const bodies = await socket.listOnWorker('list the routes of the host', dumpRoutes(4, { protocol: RTPROT_BIRD }));
  const isLearned = ({ protocol, table, priority }: Route): boolean =>
    // Kernels before 4.20 ignore the filter.
    protocol === RTPROT_BIRD && table === RT_TABLE_MAIN && priority === metric;
  const indexes = new Set(bodies.filter((body) => isLearned(decodeRoute(body))).flatMap(hopDevices));
  if (indexes.size === 0) return [];
  return (await listLinksOnWorker(socket)).filter(({ index }) => indexes.has(index)).map(({ name }) => name);
}

/** See HostNetwork.listPeers. */
export async function listPeers(socket: RouteSocket, device: string): Promise<readonly TunnelPeer[]> {
  const link = await findLinkOnWorker(socket, device);
  if (link === undefined) return [];
  const neighbours = await listRows(socket, link, 'neighbours');
  const forwarding = Map.groupBy(await listRows(socket, link, 'forwarding'), ({ mac }) => mac);
  return neighbours.flatMap(({ address: gateway, mac }) =>
    (forwarding.get(mac) ?? []).map(({ address: remote }) => ({ device, gateway, mac, remote })),
  );
}

export async function listRows(socket: RouteSocket, link: Link, table: NeighbourTable): Promise<readonly MacOwner[]> {
  const what = `list the ${table} of tunnel "${link.name}"`;
  const bodies = await socket.listOnWorker(what, listNeighbours(link.index, table));
  return bodies.flatMap((body) => decodeNeighbour(body, link.index) ?? []);
}

/** Converts a route of the agent; undefined for a route that the agent cannot have made. */
export function toHostRoute(route: Route, nameOf: (index: number) => string | undefined): HostRoute | undefined {
  const { destination, type, gateway, deviceIndex, isOnLink } = route;
  if (type === 'blackhole') return { destination, hop: { kind: 'blackhole' } };
  const device = deviceIndex === undefined ? undefined : nameOf(deviceIndex);
  if (gateway === undefined || device === undefined) return undefined;
  return { destination, hop: { kind: 'gateway', gateway, device, isOnLink } };
}

async function listLinksOnWorker(socket: RouteSocket): Promise<readonly Link[]> {
  const bodies = await socket.listOnWorker('list the interfaces of the host', listLinks());
  return bodies.map(decodeLink);
}

/** Lists routes of the protocol in the main table. */
async function listRoutesOf(socket: RouteSocket, protocol: number): Promise<readonly Route[]> {
  const bodies = await socket.listFamiliesOnWorker('list the routes of the host', (family) =>
    dumpRoutes(family, { protocol }),
  );
  // Kernels before 4.20 ignore the filter.
  return bodies.map(decodeRoute).filter((route) => route.protocol === protocol && route.table === RT_TABLE_MAIN);
}
