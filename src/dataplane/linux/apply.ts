import { systemClock } from '../../base/clock.ts';
import { NetplugError, reasonOf } from '../../base/errors.ts';
import { Undo } from '../../base/undo.ts';
import type { PodNetwork, SourceCheck } from '../kernel.ts';
import { addAddress } from './address-messages.ts';
import type { Addon } from './addon.ts';
import type { LinkDeleter } from './delete-links.ts';
import { ensureIpv6Forwarding, type ForwardingOptions } from './host-forwarding.ts';
import { addHostRoutes, clearHostRoute } from './host-routes.ts';
import { decodeAlias, encodeAlias } from '../link-alias.ts';
import { familiesOf, hostSysctls, sourceCheckSysctls, type Sysctl } from '../link-sysctls.ts';
import { refuseOtherInterface } from '../other-interface.ts';
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
import {
  configurePodLink,
  gatewayOf,
  LINK_LOCAL_BITS,
  pendingPodSysctls,
  removeSourceRules,
  writePodSysctls,
} from './pod-side.ts';
import { lookUpRoute } from './route-messages.ts';
import { RouteSocket, kernelFailure, refusal } from './route-socket.ts';
import { writeSysctl } from './sysctl.ts';

const EEXIST = 17;
const ENODEV = 19;
const CARRIER_PERIOD_MS = 1;
const CARRIER_TIMEOUT_MS = 2000;
/** More than the number of links that a host creates between two attempts. */
const INDEX_APART = 1000;

export interface ApplyPorts {
  readonly addon: Addon;
  readonly deleter: LinkDeleter;
  readonly netnsOptions: NetnsOptions;
  readonly sourceCheck: SourceCheck;
  readonly forwarding: ForwardingOptions;
}

/** One call: the desired network, and sockets in the namespaces of the host and of the pod. */
interface ApplyContext extends Pick<ApplyPorts, 'sourceCheck'> {
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
 * See Kernel.apply. Makes every check before the first change, so that a leftover of an earlier sandbox is deleted only
 * when the new link can be created.
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
  const context = { sourceCheck, forwarding, network, signal, host, pod, inside };
  const alias = encodeAlias(network.owner);

  const [found, ...routes] = host.askAll([
    getLinkByName(network.hostLinkName),
    ...network.addresses.map((address) => lookUpRoute(address)),
  ]);
  const leftover = linkIn(found, network.hostLinkName);
  if (leftover !== undefined) {
    refuseOtherInterface(network.hostLinkName, decodeAlias(leftover.alias), network.owner);
    refuseTakenName(context, leftover);
  }
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
    const { hostLink, podIndex } = await createUnequalLink(context, { deleter, undo });
    signal.throwIfAborted();
    configureHostLink(context, hostLink, alias);
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
    // Last, because what lacks something of a link with addresses is restored.
    const complete = setLinkAlias(hostLink.index, encodeAlias(network.owner, network.addresses));
    const last = [{ what: nameOwner(hostLink.name), message: complete }];
    addHostRoutes(host, network.addresses, { link: hostLink, last });
    await untilCarrier(context);
    return { mtu: hostLink.mtu };
  } catch (cause) {
    throw await undoAll(undo, network, cause);
  }
}

/**
 * Refuses when the pod has a link of that name, unless it is the other end of the leftover to delete.
 * @throws kernel/interface-exists
 */
function refuseTakenName({ network, host, pod, inside }: ApplyContext, leftover?: Link): void {
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

/** Creates both ends and returns the host's. Later steps use its index, which no other link of that name has. */
function createLink(context: ApplyContext, hostIndex?: number): Link {
  const { network, host, pod } = context;
  const { hostLinkName, podLinkName, netns, mtu, queues } = network;
  const what = `make interface "${podLinkName}" in namespace "${netns}" with host side "${hostLinkName}"`;
  const reply = host.ask(
    createVethPair({ ...network, podNetnsFd: pod.fd, ...(hostIndex === undefined ? {} : { hostIndex }) }),
  );
  if (reply.errno === EEXIST) refuseTakenName(context);
  // The kernel does not report which of the two values it refuses.
  const values = `${mtu === undefined ? '' : `MTU ${String(mtu)} and `}num_queues ${String(queues)}`;
  if (reply.errno !== 0) throw refusal(`${what}, ${values}`, reply);
  const [made] = reply.bodies;
  return made === undefined ? linkOf(host, hostLinkName) : decodeLink(made);
}

/**
 * Creates a pair whose ends have different indexes. The kernel treats ends of the same index as a link without a lower
 * device and may report its carrier a second late, so that the pod has no link-local address until then. Such a pair is
 * created again with another index on the host.
 */
async function createUnequalLink(
  context: ApplyContext,
  { deleter, undo }: { deleter: LinkDeleter; undo: Undo },
): Promise<Ends> {
  const podIndexOf = ({ peerIndex }: Link): number =>
    peerIndex ?? linkOf(context.inside, context.network.podLinkName).index;
  const first = createLink(context);
  undo.defer(async () => deleter.delete(first));
  const podIndex = podIndexOf(first);
  if (podIndex !== first.index) return { hostLink: first, podIndex };
  await deleter.delete(first);
  const hostLink = createLink(context, first.index + INDEX_APART);
  undo.defer(async () => deleter.delete(hostLink));
  return { hostLink, podIndex: podIndexOf(hostLink) };
}

/**
 * Waits until the kernel has detected the carrier of both ends, which work under the same lock can delay. Until then an
 * end drops packets.
 */
async function untilCarrier({ network, host, inside, signal }: ApplyContext): Promise<void> {
  const waiting = [
    [host, network.hostLinkName],
    [inside, network.podLinkName],
  ] as const;
  let carrying = 0;
  for (let waitedMs = 0; waitedMs < CARRIER_TIMEOUT_MS; waitedMs += CARRIER_PERIOD_MS) {
    for (const [socket, name] of waiting.slice(carrying)) {
      const link = findLink(socket, name);
      if (link === undefined) throw kernelFailure(`find interface "${name}" after connecting it`, ENODEV);
      if (!link.hasCarrier) break;
      carrying += 1;
    }
    if (carrying === waiting.length) return;
    await systemClock.sleep(CARRIER_PERIOD_MS, signal);
  }
}

/** Sets the owner first and brings the link up last, after all settings. */
function configureHostLink({ network, host, sourceCheck, forwarding }: ApplyContext, link: Link, alias: string): void {
  const { index, name } = link;
  const families = familiesOf(network.addresses);
  const all = [...hostSysctls(name, families), ...sourceCheckSysctls(name, families, sourceCheck)];
  const { requests, files } = divideSettings(index, all);
  const owned = { what: nameOwner(name), message: setLinkAlias(index, alias) };
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

function nameOwner(link: string): string {
  return `name the owner of interface "${link}"`;
}

function linkOf(socket: RouteSocket, name: string): Link {
  const link = findLink(socket, name);
  if (link === undefined) throw kernelFailure(`find interface "${name}" right after making it`, ENODEV);
  return link;
}

/** Undoes all steps. Returns the error to throw: the cause, or an error with both causes when undoing fails too. */
async function undoAll(undo: Undo, { hostLinkName }: PodNetwork, cause: unknown): Promise<unknown> {
  try {
    await undo[Symbol.asyncDispose]();
    return cause;
  } catch (second) {
    return new NetplugError(
      'kernel/failed',
      `Cannot remove interface "${hostLinkName}" after a failure: ${reasonOf(cause)}`,
      {
        hint: `Delete it with "ip link delete dev ${hostLinkName}"`,
        cause: new AggregateError([cause, second]),
      },
    );
  }
}
