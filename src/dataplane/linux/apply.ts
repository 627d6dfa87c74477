import { systemClock } from '../../base/clock.ts';
import { NetplugError, reasonOf } from '../../base/errors.ts';
import { Undo } from '../../base/undo.ts';
import type { PodNetwork, SourceCheck } from '../kernel.ts';
import { addAddress } from './address-messages.ts';
import type { Addon } from './addon.ts';
import type { LinkDeleter } from './delete-links.ts';
import { ensureIpv6Forwarding, type ForwardingOptions } from './host-forwarding.ts';
import { addHostRoute, clearHostRoute } from './host-routes.ts';
import { encodeAlias } from '../link-alias.ts';
import { familiesOf, hostSysctls, sourceCheckSysctls, type Sysctl } from '../link-sysctls.ts';
import {
  type Link,
  createVethPair,
  decodeLink,
  decodeNetnsId,
  getLinkByName,
  getNetnsId,
  setLinkAlias,
  setLinkUp,
} from './link-messages.ts';
import { divideSettings } from './link-settings.ts';
import { findLink, linkIn } from './links.ts';
import { type Netns, type NetnsOptions, openNetns } from './netns.ts';
import { configurePodLink, gatewayOf, pendingPodSysctls, removeSourceRules, writePodSysctls } from './pod-side.ts';
import { lookUpRoute } from './route-messages.ts';
import { RouteSocket, kernelFailure, refusal } from './route-socket.ts';
import { writeSysctl } from './sysctl.ts';

const EEXIST = 17;
const ENODEV = 19;
const LINK_LOCAL_BITS = 64;
const CARRIER_PERIOD_MS = 1;
const CARRIER_PATIENCE_MS = 2000;
/** Farther than one host gets in the time between two links. */
const INDEX_APART = 1000;

export interface ApplyPorts {
  readonly addon: Addon;
  readonly deleter: LinkDeleter;
  readonly netnsOptions: NetnsOptions;
  readonly sourceCheck: SourceCheck;
  readonly forwarding: ForwardingOptions;
}

/** Both namespaces of one pod link: where the thread is, and the pod's. */
interface Scene extends Pick<ApplyPorts, 'sourceCheck'> {
  readonly network: PodNetwork;
  readonly signal: AbortSignal;
  readonly host: RouteSocket;
  readonly pod: Netns;
  readonly inside: RouteSocket;
  readonly forwarding: ForwardingOptions;
}

/** The two ends of one link. */
interface Ends {
  readonly hostLink: Link;
  readonly podIndex: number;
}

/**
 * See Kernel.apply. Every refusal that can be foreseen comes before the first change, so a leftover of an earlier
 * sandbox goes only when its successor is about to come; a leftover that is gone is not brought back.
 */
export async function applyPodNetwork(
  { addon, deleter, netnsOptions, sourceCheck, forwarding }: ApplyPorts,
  network: PodNetwork,
  signal: AbortSignal,
): Promise<{ readonly mtu: number }> {
  signal.throwIfAborted();
  using pod = openNetns(addon, network.netns, netnsOptions);
  using host = RouteSocket.open(addon);
  using inside = pod.run(() => RouteSocket.open(addon));
  const scene = { sourceCheck, forwarding, network, signal, host, pod, inside };
  const alias = encodeAlias(network.owner);

  const [found, ...routes] = host.askAll([
    getLinkByName(network.hostLinkName),
    ...network.addresses.map((address) => lookUpRoute(address)),
  ]);
  const leftover = linkIn(found, network.hostLinkName);
  if (leftover !== undefined) refuseTakenName(scene, leftover);
  const own = network.hostLinkName;
  const routed = network.addresses.filter((address, index) => {
    const reply = routes[index];
    return clearHostRoute(host, address, { mode: 'look', own, ...(reply === undefined ? {} : { reply }) });
  });
  if (leftover !== undefined) {
    signal.throwIfAborted();
    await deleter.delete(leftover);
  }

  const undo = new Undo();
  try {
    signal.throwIfAborted();
    const { hostLink, podIndex } = await createUnequalLink(scene, { deleter, undo });
    signal.throwIfAborted();
    configureHostLink(scene, hostLink, alias);
    signal.throwIfAborted();
    const changed: Sysctl[] = [];
    undo.defer(() => {
      pod.run(() => {
        for (const setting of changed.reverse()) writeSysctl(setting, `in namespace "${pod.path}"`);
      });
    });
    const pending = pendingPodSysctls(inside, network);
    if (pending.length > 0) pod.run(() => writePodSysctls(network, pending, changed));
    signal.throwIfAborted();
    const ruled = configurePodLink(inside, network, podIndex);
    undo.defer(() => removeSourceRules(inside, ruled, podIndex));
    signal.throwIfAborted();
    for (const address of routed) clearHostRoute(host, address, { mode: 'delete', own });
    for (const address of network.addresses) addHostRoute(host, address, hostLink);
    await untilLinkCarries(scene);
    return { mtu: hostLink.mtu };
  } catch (cause) {
    throw await undoEntry(undo, network, cause);
  }
}

/**
 * Refuses when a link of the pod's name is in the way, unless it is the other end of the leftover that is about to go.
 * @throws kernel/interface-exists
 */
function refuseTakenName({ network, host, pod, inside }: Scene, leftover?: Link): void {
  const taken = findLink(inside, network.podLinkName);
  if (taken === undefined) return;
  if (leftover !== undefined && leftover.peerIndex === taken.index && taken.peerIndex === leftover.index) {
    const [body] = host.ask(getNetnsId(pod.fd)).bodies;
    if (leftover.peerNetnsId === (body === undefined ? undefined : decodeNetnsId(body))) return;
  }
  const where = `in namespace "${network.netns}"`;
  throw new NetplugError(
    'kernel/interface-exists',
    `Cannot make interface "${network.podLinkName}" ${where}: it exists`,
    {
      hint: 'Remove the interface, or give this attachment another interface name',
      facts: { netns: network.netns, interface: network.podLinkName },
    },
  );
}

/** Makes both ends and returns the host's: by its index, no other link of that name is ever taken for it. */
function createLink(scene: Scene, hostIndex?: number): Link {
  const { network, host, pod } = scene;
  const { hostLinkName, podLinkName, netns, mtu, queues } = network;
  const what = `make interface "${podLinkName}" in namespace "${netns}" with host side "${hostLinkName}"`;
  const reply = host.ask(
    createVethPair({ ...network, podNetnsFd: pod.fd, ...(hostIndex === undefined ? {} : { hostIndex }) }),
  );
  if (reply.errno === EEXIST) refuseTakenName(scene);
  // The kernel does not say which of the two it refuses.
  const values = `${mtu === undefined ? '' : `MTU ${String(mtu)} and `}num_queues ${String(queues)}`;
  if (reply.errno !== 0) throw refusal(`${what}, ${values}`, reply);
  const [made] = reply.bodies;
  return made === undefined ? linkOf(host, hostLinkName) : decodeLink(made);
}

/**
 * Two ends of the same index look to the kernel like a link without a lower one, whose carrier it may announce a second
 * late; until then the pod has no link-local address. Such a pair is made again with another index on the host.
 */
async function createUnequalLink(scene: Scene, { deleter, undo }: { deleter: LinkDeleter; undo: Undo }): Promise<Ends> {
  const podIndexOf = ({ peerIndex }: Link): number =>
    peerIndex ?? linkOf(scene.inside, scene.network.podLinkName).index;
  const first = createLink(scene);
  undo.defer(async () => deleter.delete(first));
  const podIndex = podIndexOf(first);
  if (podIndex !== first.index) return { hostLink: first, podIndex };
  await deleter.delete(first);
  const hostLink = createLink(scene, first.index + INDEX_APART);
  undo.defer(async () => deleter.delete(hostLink));
  return { hostLink, podIndex: podIndexOf(hostLink) };
}

/**
 * An end drops packets until the kernel has noticed its carrier, which other work under the same lock delays. A network
 * that is announced shall carry its first packet.
 */
async function untilLinkCarries({ network, host, inside, signal }: Scene): Promise<void> {
  const waiting = [
    [host, network.hostLinkName],
    [inside, network.podLinkName],
  ] as const;
  let carrying = 0;
  for (let waitedMs = 0; waitedMs < CARRIER_PATIENCE_MS; waitedMs += CARRIER_PERIOD_MS) {
    for (const [socket, name] of waiting.slice(carrying)) {
      if (findLink(socket, name)?.carries === false) break;
      carrying += 1;
    }
    if (carrying === waiting.length) return;
    await systemClock.sleep(CARRIER_PERIOD_MS, signal);
  }
}

/** Names the owner first, and comes up last, with all settings in place. */
function configureHostLink({ network, host, sourceCheck, forwarding }: Scene, link: Link, alias: string): void {
  const { index, name } = link;
  const families = familiesOf(network.addresses);
  const all = [...hostSysctls(name, families), ...sourceCheckSysctls(name, families, sourceCheck)];
  const { requests, files } = divideSettings(index, all);
  const owned = { what: `name the owner of interface "${name}"`, message: setLinkAlias(index, alias) };
  host.requestAll([owned, ...requests]);
  for (const setting of files) writeSysctl(setting, 'on the host');
  if (families.has(6)) ensureIpv6Forwarding(name, forwarding);
  const what = `interface "${name}" of the host`;
  const up = { what: `bring up ${what}`, message: setLinkUp(index) };
  const gateway = {
    what: `add the IPv6 gateway to ${what}`,
    message: addAddress(index, gatewayOf(6), LINK_LOCAL_BITS),
  };
  host.requestAll([up, ...(families.has(6) ? [gateway] : [])]);
}

function linkOf(socket: RouteSocket, name: string): Link {
  const link = findLink(socket, name);
  if (link === undefined) throw kernelFailure(`find interface "${name}" right after making it`, ENODEV);
  return link;
}

/** Takes everything back and returns what to throw: the cause, or more when taking back fails too. */
async function undoEntry(undo: Undo, { hostLinkName }: PodNetwork, cause: unknown): Promise<unknown> {
  try {
    await undo[Symbol.asyncDispose]();
    return cause;
  } catch (second) {
    return new NetplugError(
      'kernel/failed',
      `Cannot take back interface "${hostLinkName}" after a failure: ${reasonOf(cause)}`,
      {
        hint: `Delete it with "ip link delete dev ${hostLinkName}"`,
        cause: new AggregateError([cause, second]),
      },
    );
  }
}
