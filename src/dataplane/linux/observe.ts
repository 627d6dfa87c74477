import { isNetplugError } from '../../base/errors.ts';
import { FAMILIES, type Family, formatAddress } from '../../net/address.ts';
import { formatCidr } from '../../net/cidr.ts';
import type { PodNetwork, PodNetworkState } from '../kernel.ts';
import { familiesOf, hostSysctls } from '../link-sysctls.ts';
import { decodeAddress, listAddresses } from './address-messages.ts';
import type { Addon } from './addon.ts';
import { findHostRoute } from './host-routes.ts';
import type { Link } from './link-messages.ts';
import { findLink, toHostLink } from './links.ts';
import { type Netns, openNetns } from './netns.ts';
import { RT_TABLE_MAIN, decodeRoute, dumpRoutes } from './route-messages.ts';
import { RouteSocket } from './route-socket.ts';
import { differingSysctls, readSysctl } from './sysctl.ts';

type PodPart = Pick<PodNetworkState, 'podLink' | 'podAddresses' | 'podRoutes' | 'ipForwarding'>;
type HostPart = Pick<PodNetworkState, 'hostLink' | 'hostRoutes' | 'wrongSysctls'>;

const NO_POD: PodPart = { podLink: undefined, podAddresses: [], podRoutes: [], ipForwarding: { 4: false, 6: false } };

/** See Kernel.observe. */
export function observePodNetwork(addon: Addon, network: PodNetwork): PodNetworkState {
  const host = observeHost(addon, network);
  // The ends of a pair are deleted together: without the host end there is no pod end.
  return { ...host, ...(host.hostLink === undefined ? NO_POD : observePod(addon, network)) };
}

function observeHost(addon: Addon, network: PodNetwork): HostPart {
  using host = RouteSocket.open(addon);
  const link = findLink(host, network.hostLinkName);
  if (link === undefined) return { hostLink: undefined, hostRoutes: [], wrongSysctls: [] };
  const routed = network.addresses.filter((address) => {
    const found = findHostRoute(host, address);
    return found?.route.type === 'unicast' && found.route.deviceIndex === link.index;
  });
  return {
    hostLink: toHostLink(link),
    hostRoutes: routed.map(formatAddress),
    wrongSysctls: differingSysctls(hostSysctls(link.name, familiesOf(network.addresses))),
  };
}

function observePod(addon: Addon, network: PodNetwork): PodPart {
  using pod = openIfExists(addon, network.netns);
  if (pod === undefined) return NO_POD;
  const { socket, ipForwarding } = pod.run(() => ({
    socket: RouteSocket.open(addon),
    ipForwarding: {
      4: readSysctl('ipv4/ip_forward') === '1',
      6: readSysctl('ipv6/conf/all/forwarding') === '1',
    },
  }));
  using inside = socket;
  const link = findLink(inside, network.podLinkName);
  if (link === undefined) return { ...NO_POD, ipForwarding };
  return {
    podLink: {
      mac: link.mac,
      mtu: link.mtu,
      isUp: link.isUp,
      peerIndex: link.peerIndex,
      queues: Math.min(link.txQueues, link.rxQueues),
    },
    podAddresses: FAMILIES.flatMap((family) => addressesOf(inside, link, family)),
    podRoutes: FAMILIES.flatMap((family) => routesOf(inside, link, family)),
    ipForwarding,
  };
}

function openIfExists(addon: Addon, path: string): Netns | undefined {
  try {
    return openNetns(addon, path, { allowOwn: true });
  } catch (cause) {
    if (isNetplugError(cause, 'kernel/netns-invalid')) return undefined;
    throw cause;
  }
}

/** Returns the global addresses. A kernel without IPv6 replies with IPv4 addresses, which are filtered out. */
function addressesOf(inside: RouteSocket, link: Link, family: Family): readonly string[] {
  return inside
    .list(`list the addresses of interface "${link.name}"`, listAddresses(link.index, family))
    .flatMap((body) => decodeAddress(body) ?? [])
    .filter(({ address, isGlobal }) => isGlobal && address.family === family)
    .map(({ address, prefixBits }) => formatCidr({ base: address, prefixBits }));
}

function routesOf(inside: RouteSocket, link: Link, family: Family): readonly string[] {
  return inside
    .list(`list the routes of interface "${link.name}"`, dumpRoutes(family, { deviceIndex: link.index }))
    .map(decodeRoute)
    .filter(({ destination, table }) => destination.base.family === family && table === RT_TABLE_MAIN)
    .flatMap(({ destination, gateway }) =>
      gateway === undefined ? [] : [`${formatCidr(destination)} via ${formatAddress(gateway)}`],
    );
}
