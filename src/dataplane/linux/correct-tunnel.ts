import type { Address } from '../../net/address.ts';
import { formatCidr, hostCidr, sameCidr } from '../../net/cidr.ts';
import type { Mac } from '../../net/mac.ts';
import type { Tunnel } from '../host-network.ts';
import { type LinkAddress, addAddress, decodeAddress, deleteAddress, listAddresses } from './address-messages.ts';
import { type Link, setLinkAlias, setLinkMac, setLinkMtu, setLinkUp } from './link-messages.ts';
import type { RouteSocket } from './route-socket.ts';
import { optionalSysctl, type Sysctl, sysctl } from '../link-sysctls.ts';
import { isDifferent, writeSysctl } from './sysctl.ts';
import { TUNNEL_ALIAS } from './tunnel-owner.ts';

/** Corrects alias, MTU and MAC. Like every function below, reports whether it changed something. @throws kernel/failed */
export async function correctLink(socket: RouteSocket, tunnel: Tunnel, link: Link): Promise<boolean> {
  const { index, name } = link;
  const mac = macOf(tunnel, link);
  if (link.alias !== TUNNEL_ALIAS) {
    await socket.requestOnWorker(`mark tunnel "${name}" as netplug's`, setLinkAlias(index, TUNNEL_ALIAS));
  }
  if (link.mtu !== tunnel.mtu) {
    const what = `give tunnel "${name}" the MTU ${String(tunnel.mtu)}`;
    await socket.requestOnWorker(what, setLinkMtu(index, tunnel.mtu));
  }
  if (link.mac !== mac) await socket.requestOnWorker(`give tunnel "${name}" the MAC ${mac}`, setLinkMac(index, mac));
  return link.alias !== TUNNEL_ALIAS || link.mtu !== tunnel.mtu || link.mac !== mac;
}

/** Returns the desired MAC of the device; a kind without one keeps its own. */
export function macOf({ encapsulation }: Tunnel, link: Link): Mac {
  return encapsulation.kind === 'vxlan' ? encapsulation.mac : link.mac;
}

/**
 * Sets the sysctls of the device: it forwards IPv4 where the node does, whatever new links inherit, accepts packets whose reply
 * would leave by another link, gets no generated address and ignores router advertisements.
 */
export function ensureSysctls({ name, addresses, encapsulation }: Tunnel): boolean {
  const hasV6 = addresses.some(({ family }) => family === 6);
  const wanted: readonly Sysctl[] = [
    // A tunnel over IPv6 carries IPv6 alone.
    ...(encapsulation.local.family === 4 ? [sysctl(`ipv4/conf/${name}/forwarding`, 1)] : []),
    sysctl(`ipv4/conf/${name}/rp_filter`, 2),
    optionalSysctl(`ipv6/conf/${name}/addr_gen_mode`, 1),
    optionalSysctl(`ipv6/conf/${name}/accept_ra`, 0),
    ...(hasV6 ? [sysctl(`ipv6/conf/${name}/disable_ipv6`, 0)] : []),
  ];
  const wrong = wanted.filter(isDifferent);
  for (const setting of wrong) writeSysctl(setting, 'on the host');
  return wrong.length > 0;
}

export async function correctAddresses(
  socket: RouteSocket,
  { name, addresses }: Tunnel,
  { index }: Link,
): Promise<boolean> {
  const what = `list the addresses of tunnel "${name}"`;
  const bodies = await socket.listFamiliesOnWorker(what, (family) => listAddresses(index, family));
  const found = bodies.map(decodeAddress).filter((one) => one !== undefined);
  const isWanted = (one: LinkAddress): boolean => addresses.some((address) => isHostAddress(one, address));
  const extra = found.filter((one) => one.isGlobal && one.deviceIndex === index && !isWanted(one));
  const missing = addresses.filter((address) => !found.some((one) => isHostAddress(one, address)));
  const remove = async ({ address, prefixBits }: LinkAddress): Promise<void> => {
    const removal = `remove address ${formatCidr({ base: address, prefixBits })} from tunnel "${name}"`;
    await socket.requestOnWorker(removal, deleteAddress(index, { address, prefixBits }));
  };
  // IPv6 allows an address on a device once, whatever its prefix, so the extra one goes first. A device that loses its
  // last IPv4 address also loses its routes and neighbours, so there the missing one comes first.
  for (const one of extra) if (one.address.family === 6) await remove(one);
  for (const address of missing) {
    const addition = `give tunnel "${name}" the address ${formatCidr(hostCidr(address))}`;
    await socket.requestOnWorker(addition, addAddress(index, address));
  }
  for (const one of extra) if (one.address.family === 4) await remove(one);
  return extra.length + missing.length > 0;
}

function isHostAddress({ address, prefixBits }: LinkAddress, wanted: Address): boolean {
  return sameCidr({ base: address, prefixBits }, hostCidr(wanted));
}

export async function bringUp(socket: RouteSocket, { index, name, isUp }: Link): Promise<boolean> {
  if (!isUp) await socket.requestOnWorker(`bring up tunnel "${name}"`, setLinkUp(index));
  return !isUp;
}
