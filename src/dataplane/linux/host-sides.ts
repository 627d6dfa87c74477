// What an ADD makes on the host side of a link, compared with what is there and made again: routes and the IPv6 gateway go when a link
// is down for a moment, and other programs flush routes and settings.
import { type Address, formatAddress, sameAddress } from '../../net/address.ts';
import type { HostLink, IncompleteLink, SourceCheck } from '../kernel.ts';
import { familiesOf, hostSysctls, sourceCheckSysctls, type Sysctl, sysctlName } from '../link-sysctls.ts';
import { addAddress, decodeAddress, listAddresses } from './address-messages.ts';
import { addHostRoutes, clearHostRoute, findHostRoute } from './host-routes.ts';
import { setLinkUp } from './link-messages.ts';
import { findLink, listHostLinks } from './links.ts';
import { gatewayOf, LINK_LOCAL_BITS } from './pod-side.ts';
import { listLinkRoutes } from './pod-addresses.ts';
import { type RouteSocket, refusal } from './route-socket.ts';
import { isDifferent, writeSysctl } from './sysctl.ts';

const EEXIST = 17;

/** See HostSides.listIncompleteLinks. */
export async function listIncompleteLinks(
  host: RouteSocket,
  { settings, sourceCheck }: { readonly settings: boolean; readonly sourceCheck: SourceCheck | undefined },
): Promise<readonly IncompleteLink[]> {
  const links = withOwnAddresses(listHostLinks(host));
  if (links.length === 0) return [];
  const routes = await listLinkRoutes(host);
  const routed = new Map(routes.map(({ address, deviceIndex }) => [formatAddress(address), deviceIndex]));
  const withGateway = await linksWithGateway(host);
  return links.flatMap((link) => {
    const missing = [
      ...(link.isUp ? [] : ['it is down']),
      ...link.addresses
        .filter((address) => routed.get(formatAddress(address)) !== link.index && !isRouted(host, link, address))
        .map((address) => `no route to ${formatAddress(address)}`),
      ...(familiesOf(link.addresses).has(6) && !withGateway.has(link.index) ? ['no IPv6 gateway'] : []),
      ...(settings ? wrongSettings(link, sourceCheck).map(({ path }) => `${sysctlName(path)} is changed`) : []),
    ];
    return missing.length === 0 ? [] : { link, missing };
  });
}

/** See HostSides.complete. */
export function completeLink(host: RouteSocket, link: HostLink, sourceCheck: SourceCheck | undefined): void {
  const { name, index } = link;
  const found = findLink(host, name);
  if (found?.index !== index || link.addresses.length === 0) return;
  for (const setting of wrongSettings(link, sourceCheck)) writeSysctl(setting, 'on the host');
  const what = `interface "${name}" of the host`;
  if (!found.isUp) host.request(`bring up ${what}`, setLinkUp(index));
  if (familiesOf(link.addresses).has(6)) {
    const reply = host.ask(addAddress(index, gatewayOf(6), LINK_LOCAL_BITS));
    if (reply.errno !== 0 && reply.errno !== EEXIST) throw refusal(`add the IPv6 gateway to ${what}`, reply);
  }
  for (const address of link.addresses) {
    if (isRouted(host, link, address)) continue;
    clearHostRoute(host, address, { mode: 'delete', own: name });
    addHostRoutes(host, [address], { link });
  }
}

/** Leaves to each link the addresses that none of a greater index has; links without any are left out. */
export function withOwnAddresses(links: readonly HostLink[]): readonly HostLink[] {
  const newest = new Map<string, number>();
  for (const { index, addresses } of links)
    for (const address of addresses.map(formatAddress)) newest.set(address, Math.max(newest.get(address) ?? 0, index));
  return links
    .map((link) => ({
      ...link,
      addresses: link.addresses.filter((address) => newest.get(formatAddress(address)) === link.index),
    }))
    .filter(({ addresses }) => addresses.length > 0);
}

function wrongSettings({ name, addresses }: HostLink, sourceCheck: SourceCheck | undefined): readonly Sysctl[] {
  const families = familiesOf(addresses);
  const checks = sourceCheck === undefined ? [] : sourceCheckSysctls(name, families, sourceCheck);
  return [...hostSysctls(name, families), ...checks].filter(isDifferent);
}

function isRouted(host: RouteSocket, { index }: HostLink, address: Address): boolean {
  const found = findHostRoute(host, address)?.route;
  return found?.type === 'unicast' && found.deviceIndex === index;
}

async function linksWithGateway(host: RouteSocket): Promise<ReadonlySet<number>> {
  const bodies = await host.listOnWorker('list the addresses of the host', listAddresses(0, 6));
  const gateways = bodies
    .flatMap((body) => decodeAddress(body) ?? [])
    .filter(({ address }) => sameAddress(address, gatewayOf(6)));
  return new Set(gateways.map(({ deviceIndex }) => deviceIndex));
}
