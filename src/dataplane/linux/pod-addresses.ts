import { type Address, bitsOf, FAMILIES } from '../../net/address.ts';
import type { PodAddress } from '../kernel.ts';
import { listHostLinks } from './links.ts';
import { decodeRoute, dumpRoutes, RTPROT_BOOT } from './route-messages.ts';
import type { RouteSocket } from './route-socket.ts';

/** A single address, and the link to which the host routes it. */
interface LinkRoute {
  readonly address: Address;
  readonly deviceIndex: number;
}

/** Returns the routes of the kind that an ADD makes. Those between nodes, of which there may be thousands, have other protocols. */
export async function listLinkRoutes(host: RouteSocket): Promise<readonly LinkRoute[]> {
  const found: LinkRoute[] = [];
  for (const family of FAMILIES) {
    const routes = await host.listOnWorker('list the routes to pods', dumpRoutes(family, { protocol: RTPROT_BOOT }));
    for (const { type, destination, deviceIndex } of routes.map(decodeRoute))
      if (type === 'unicast' && destination.prefixBits === bitsOf(family) && deviceIndex !== undefined)
        found.push({ address: destination.base, deviceIndex });
  }
  return found;
}

/** See Kernel.listPodAddresses. */
export async function listPodAddresses(host: RouteSocket): Promise<readonly PodAddress[]> {
  const owners = new Map(
    listHostLinks(host).flatMap(({ index, owner }) => (owner === undefined ? [] : [[index, owner]])),
  );
  if (owners.size === 0) return [];
  return (await listLinkRoutes(host)).flatMap(({ address, deviceIndex }) => {
    const owner = owners.get(deviceIndex);
    return owner === undefined ? [] : { address, owner };
  });
}
