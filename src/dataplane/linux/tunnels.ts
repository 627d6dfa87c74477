import { NetplugError } from '../../base/errors.ts';
import { type Address, FAMILIES, formatAddress } from '../../net/address.ts';
import { formatCidr, hostCidr, sameCidr } from '../../net/cidr.ts';
import type { Mac } from '../../net/mac.ts';
import type { Tunnel } from '../host-network.ts';
import { type LinkAddress, addAddress, decodeAddress, deleteAddress, listAddresses } from './address-messages.ts';
import type { Addon } from './addon.ts';
import {
  type Link,
  decodeLink,
  deleteLink,
  getLinkByName,
  setLinkAlias,
  setLinkMac,
  setLinkMtu,
  setLinkUp,
} from './link-messages.ts';
import { findLinkOnWorker } from './links.ts';
import { RouteSocket, kernelFailure, refusal } from './route-socket.ts';
import { type Sysctl, isDifferent, optionalSysctl, sysctl, writeSysctl } from './sysctl.ts';
import { type FixedPart, createTunnel, decodeTunnel } from './tunnel-messages.ts';
import { TUNNEL_ALIAS, isOurs } from './tunnel-owner.ts';
import { ensureChecksums } from './vxlan-checksums.ts';

const ENODEV = 19;
const EOPNOTSUPP = 95;

export interface TunnelPorts {
  readonly addon: Addon;
  readonly checksums: 'software' | 'offload' | 'any';
}

/** A tunnel device as it is. */
interface Found {
  readonly link: Link;
  readonly fixed: FixedPart | undefined;
}

/** See HostNetwork.putTunnel. */
export async function putTunnel(ports: TunnelPorts, tunnel: Tunnel): Promise<'unchanged' | 'changed' | 'replaced'> {
  using socket = RouteSocket.open(ports.addon);
  const fixed = await fixedPartOf(socket, tunnel);
  const before = await findTunnel(socket, tunnel.name);
  if (before !== undefined && !isOurs(before.link)) throw takenName(tunnel.name, before.link);
  const isSame = before !== undefined && isSameFixedPart(before.fixed, fixed);
  const hadOtherMac = before !== undefined && before.link.mac !== macOf(tunnel, before.link);
  if (before !== undefined && !isSame) await deleteTunnel(socket, before.link);
  if (!isSame) await makeTunnel(socket, tunnel, fixed);
  const { link } = (isSame ? before : await findTunnel(socket, tunnel.name)) ?? vanished(tunnel.name);
  const steps = [
    await correctLink(socket, tunnel, link),
    ensureSysctls(tunnel),
    fixed.kind === 'vxlan' && ensureChecksums(ports.addon, tunnel.name, ports.checksums),
    await correctAddresses(socket, tunnel, link),
    await bringUp(socket, link),
  ];
  if (before !== undefined && (!isSame || hadOtherMac)) return 'replaced';
  return !isSame || steps.includes(true) ? 'changed' : 'unchanged';
}

/** See HostNetwork.removeTunnel. */
export async function removeTunnel(addon: Addon, name: string): Promise<boolean> {
  using socket = RouteSocket.open(addon);
  const link = await findLinkOnWorker(socket, name);
  if (link === undefined || !isOurs(link)) return false;
  await deleteTunnel(socket, link);
  return true;
}

async function fixedPartOf(socket: RouteSocket, { name, encapsulation }: Tunnel): Promise<FixedPart> {
  if (encapsulation.kind === 'ipip') return { kind: 'ipip', local: encapsulation.local };
  const { vni, port, local, uplink } = encapsulation;
  const link = await findLinkOnWorker(socket, uplink);
  if (link !== undefined) return { kind: 'vxlan', vni, port, local, uplinkIndex: link.index, isLearning: false };
  throw new NetplugError('kernel/failed', `Cannot make tunnel "${name}": there is no interface "${uplink}"`, {
    facts: { tunnel: name, uplink },
  });
}

async function findTunnel(socket: RouteSocket, name: string): Promise<Found | undefined> {
  const [reply] = await socket.askOnWorker([getLinkByName(name)]);
  if (reply.errno === ENODEV) return undefined;
  const [body] = reply.bodies;
  if (reply.errno !== 0 || body === undefined) throw refusal(`look up tunnel "${name}"`, reply);
  return { link: decodeLink(body), fixed: decodeTunnel(body) };
}

async function makeTunnel(socket: RouteSocket, tunnel: Tunnel, fixed: FixedPart): Promise<void> {
  const { name, encapsulation } = tunnel;
  const mac = encapsulation.kind === 'vxlan' ? encapsulation.mac : undefined;
  const [reply] = await socket.askOnWorker([createTunnel(tunnel, fixed, mac)]);
  if (reply.errno === EOPNOTSUPP) throw missingModule(name, fixed.kind);
  if (reply.errno !== 0) throw refusal(`make tunnel "${name}" with MTU ${String(tunnel.mtu)}`, reply);
}

async function deleteTunnel(socket: RouteSocket, { index, name }: Link): Promise<void> {
  const [reply] = await socket.askOnWorker([deleteLink(index)]);
  if (reply.errno !== 0 && reply.errno !== ENODEV) throw refusal(`delete tunnel "${name}"`, reply);
}

/** Says whether something had to be changed, like all that follow. */
async function correctLink(socket: RouteSocket, tunnel: Tunnel, link: Link): Promise<boolean> {
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

/** The kernel forgets neighbours when it changes. */
function macOf({ encapsulation }: Tunnel, link: Link): Mac {
  return encapsulation.kind === 'vxlan' ? encapsulation.mac : link.mac;
}

/**
 * Answers may come in by another link than the one that leads back; the device has no addresses but those it is given,
 * and listens to no router behind it.
 */
function ensureSysctls({ name, addresses }: Tunnel): boolean {
  const hasV6 = addresses.some(({ family }) => family === 6);
  const wanted: readonly Sysctl[] = [
    sysctl(`ipv4/conf/${name}/rp_filter`, 2),
    optionalSysctl(`ipv6/conf/${name}/addr_gen_mode`, 1),
    optionalSysctl(`ipv6/conf/${name}/accept_ra`, 0),
    ...(hasV6 ? [sysctl(`ipv6/conf/${name}/disable_ipv6`, 0)] : []),
  ];
  const wrong = wanted.filter(isDifferent);
  for (const setting of wrong) writeSysctl(setting, 'on the host');
  return wrong.length > 0;
}

async function correctAddresses(socket: RouteSocket, { name, addresses }: Tunnel, { index }: Link): Promise<boolean> {
  const found: LinkAddress[] = [];
  for (const family of FAMILIES) {
    const bodies = await socket.listOnWorker(`list the addresses of tunnel "${name}"`, listAddresses(index, family));
    found.push(...bodies.map(decodeAddress).filter((one) => one !== undefined));
  }
  const isWanted = (one: LinkAddress): boolean => addresses.some((address) => isWhole(one, address));
  const extra = found.filter((one) => one.isGlobal && one.deviceIndex === index && !isWanted(one));
  const missing = addresses.filter((address) => !found.some((one) => isWhole(one, address)));
  const take = async ({ address, prefixBits }: LinkAddress): Promise<void> => {
    const what = `take address ${formatCidr({ base: address, prefixBits })} from tunnel "${name}"`;
    await socket.requestOnWorker(what, deleteAddress(index, { address, prefixBits }));
  };
  // IPv6 has an address on a device only once, with whatever prefix; a device that loses its last IPv4 address loses
  // its routes and neighbours too.
  for (const one of extra) if (one.address.family === 6) await take(one);
  for (const address of missing) {
    const what = `give tunnel "${name}" the address ${formatCidr(hostCidr(address))}`;
    await socket.requestOnWorker(what, addAddress(index, address));
  }
  for (const one of extra) if (one.address.family === 4) await take(one);
  return extra.length + missing.length > 0;
}

function isWhole({ address, prefixBits }: LinkAddress, wanted: Address): boolean {
  return sameCidr({ base: address, prefixBits }, hostCidr(wanted));
}

async function bringUp(socket: RouteSocket, { index, name, isUp }: Link): Promise<boolean> {
  if (!isUp) await socket.requestOnWorker(`bring up tunnel "${name}"`, setLinkUp(index));
  return !isUp;
}

function isSameFixedPart(a: FixedPart | undefined, b: FixedPart): boolean {
  return a !== undefined && keyOf(a) === keyOf(b);
}

function keyOf(part: FixedPart): string {
  const local = part.local === undefined ? '' : formatAddress(part.local);
  return part.kind === 'ipip'
    ? `ipip ${local}`
    : ['vxlan', part.vni, part.port, local, part.uplinkIndex, part.isLearning].join(' ');
}

function takenName(name: string, { kind, alias }: Link): NetplugError {
  const what = alias === '' ? `a link of kind "${kind}"` : `a link of kind "${kind}" with alias "${alias}"`;
  return new NetplugError('kernel/failed', `Cannot make tunnel "${name}": there is ${what} of that name`, {
    hint: `Remove it with "ip link delete dev ${name}" if nothing needs it, or rename it`,
    facts: { tunnel: name, kind, alias },
  });
}

function missingModule(name: string, module: string): NetplugError {
  return new NetplugError('kernel/module-missing', `Cannot make tunnel "${name}": the kernel has no module ${module}`, {
    hint: `Load it with "modprobe ${module}", or let the IP pools use another mode`,
    facts: { tunnel: name, module },
  });
}

function vanished(name: string): never {
  throw kernelFailure(`find tunnel "${name}" right after making it`, ENODEV);
}
