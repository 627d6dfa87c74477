import { NetplugError } from '../../base/errors.ts';
import { formatAddress } from '../../net/address.ts';
import type { Tunnel } from '../host-network.ts';
import type { Addon } from './addon.ts';
import { bringUp, correctAddresses, correctLink, ensureSysctls, macOf } from './correct-tunnel.ts';
import { type Link, decodeLink, deleteLink, getLinkByName, listLinks } from './link-messages.ts';
import { findLinkOnWorker } from './links.ts';
import { RouteSocket, kernelFailure, refusal } from './route-socket.ts';
import { type FixedPart, createTunnel, decodeTunnel } from './tunnel-messages.ts';
import { isOwnTunnel, isTunnel } from './tunnel-owner.ts';
import { ensureChecksums } from './vxlan-checksums.ts';

const EEXIST = 17;
const ENODEV = 19;
const EOPNOTSUPP = 95;

export interface KernelTunnelPorts {
  readonly addon: Addon;
  readonly checksums: 'software' | 'offload' | 'any';
}

/** An existing tunnel device. */
interface Found {
  readonly link: Link;
  readonly fixed: FixedPart | undefined;
}

/** See HostNetwork.putTunnel. */
export async function putTunnel(
  ports: KernelTunnelPorts,
  tunnel: Tunnel,
): Promise<'unchanged' | 'changed' | 'replaced'> {
  using socket = RouteSocket.open(ports.addon);
  const fixed = await fixedPartOf(socket, tunnel);
  const before = await findTunnel(socket, tunnel.name);
  if (before !== undefined && !isOwnTunnel(before.link)) throw takenName(tunnel.name, before.link);
  const isSame = before !== undefined && isSameFixedPart(before.fixed, fixed);
  // The kernel drops the neighbours of a device that is down or gets another MAC.
  const hasLostPeers = before !== undefined && (!before.link.isUp || before.link.mac !== macOf(tunnel, before.link));
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
  if (before !== undefined && (!isSame || hasLostPeers)) return 'replaced';
  return !isSame || steps.includes(true) ? 'changed' : 'unchanged';
}

/** See HostNetwork.findTunnels. */
export async function findTunnels(addon: Addon, names: readonly string[]): Promise<readonly string[]> {
  using socket = RouteSocket.open(addon);
  const found: string[] = [];
  for (const name of names) {
    const link = await findLinkOnWorker(socket, name);
    if (link !== undefined && isOwnTunnel(link)) found.push(name);
  }
  return found;
}

/** See HostNetwork.findRivals. */
export async function findRivals(
  addon: Addon,
  vxlan: { readonly vni: number; readonly port: number },
): Promise<readonly string[]> {
  using socket = RouteSocket.open(addon);
  return await rivalsOf(socket, vxlan);
}

/** See HostNetwork.removeTunnel. */
export async function removeTunnel(addon: Addon, name: string): Promise<boolean> {
  using socket = RouteSocket.open(addon);
  const link = await findLinkOnWorker(socket, name);
  if (link === undefined || !isOwnTunnel(link)) return false;
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
  if (reply.errno === EEXIST && encapsulation.kind === 'vxlan') {
    const [rival] = await rivalsOf(socket, encapsulation);
    if (rival !== undefined) throw takenNumber(name, encapsulation, rival);
  }
  if (reply.errno !== 0) throw refusal(`make tunnel "${name}" with MTU ${String(tunnel.mtu)}`, reply);
}

async function rivalsOf(
  socket: RouteSocket,
  { vni, port }: { readonly vni: number; readonly port: number },
): Promise<readonly string[]> {
  const bodies = await socket.listOnWorker('list the interfaces of the host', listLinks());
  return bodies.flatMap((body) => {
    const fixed = decodeTunnel(body);
    const link = decodeLink(body);
    const isRival = fixed?.kind === 'vxlan' && fixed.vni === vni && fixed.port === port && !isTunnel(link);
    return isRival ? [link.name] : [];
  });
}

async function deleteTunnel(socket: RouteSocket, { index, name }: Link): Promise<void> {
  const [reply] = await socket.askOnWorker([deleteLink(index)]);
  if (reply.errno !== 0 && reply.errno !== ENODEV) throw refusal(`delete tunnel "${name}"`, reply);
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

function takenNumber(
  name: string,
  { vni, port }: { readonly vni: number; readonly port: number },
  rival: string,
): NetplugError {
  const number = `number ${String(vni)} and port ${String(port)}`;
  return new NetplugError(
    'kernel/tunnel-taken',
    `Cannot make tunnel "${name}": VXLAN device "${rival}" has its ${number}`,
    {
      hint: `If nothing needs that device any more, delete it on the node: ip link delete dev ${rival}`,
      facts: { tunnel: name, rival, vni, port },
    },
  );
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
