import { bitsOf, FAMILIES } from '../../net/address.ts';
import type { PodAddress } from '../kernel.ts';
import { listHostLinks } from './links.ts';
import { decodeRoute, dumpRoutes, RTPROT_BOOT } from './route-messages.ts';
import type { RouteSocket } from './route-socket.ts';

/** See Kernel.listPodAddresses. Routes between nodes, of which there may be thousands, have other protocols. */
export async function listPodAddresses(host: RouteSocket): Promise<readonly PodAddress[]> {
  const owners = new Map(
    listHostLinks(host).flatMap(({ index, owner }) => (owner === undefined ? [] : [[index, owner]])),
  );
  if (owners.size === 0) return [];
  const addresses: PodAddress[] = [];
  for (const family of FAMILIES) {
    const routes = await host.listOnWorker('list the routes to pods', dumpRoutes(family, { protocol: RTPROT_BOOT }));
    for (const { type, destination, deviceIndex } of routes.map(decodeRoute)) {
      const owner = deviceIndex === undefined ? undefined : owners.get(deviceIndex);
      if (owner === undefined || type !== 'unicast' || destination.prefixBits !== bitsOf(family)) continue;
      addresses.push({ address: destination.base, owner });
    }
  }
  return addresses;
}
