import { setTimeout as sleep } from 'node:timers/promises';
import type { HostSides, Kernel, LinkOwner, SourceCheck } from '../kernel.ts';
import type { RateLimits } from '../rate-limits.ts';
import { loadAddon } from './addon.ts';
import { type ApplyPorts, applyPodNetwork } from './apply.ts';
import { LinkDeleter } from './delete-links.ts';
import type { ForwardingRecorder } from './forwarding-record.ts';
import { decodeAlias } from '../link-alias.ts';
import { getLinkByIndex, type Link } from './link-messages.ts';
import { completeLink, listIncompleteLinks } from './host-sides.ts';
import { findLinkOnWorker, isHostSide, linkIn, listConnectedLinks, listHostLinks } from './links.ts';
import { openNetns } from './netns.ts';
import { observePodNetwork } from './observe.ts';
import { listPodAddresses } from './pod-addresses.ts';
import { boundRate, listRateLimits } from './rate-limits.ts';
import { RouteSocket } from './route-socket.ts';

/** An ADD sets the owner of a link within microseconds of its creation, unless the host is busy. */
const OWNED_MS = 1000;

export interface LinuxKernelOptions {
  /** Accepts the plugin's own namespace as that of a pod, as a runtime requests with CNI_NETNS_OVERRIDE. */
  readonly allowOwnNetns?: boolean;
  /** For links created from now on, `strict` unless given. Only where it is given, links are compared with it. */
  readonly sourceCheck?: SourceCheck;
  /** Called before forwarding is enabled on the host. */
  readonly record?: ForwardingRecorder;
  /** Path of netns.node, for a bundle that does not contain it. */
  readonly addonPath?: string;
}

/**
 * Returns the port to the kernel. Its host is the network namespace of the calling thread, which must be the main thread
 * and must stay in that namespace while a call runs. Nothing is opened before the first call or held between calls.
 */
export function linuxKernel(options: LinuxKernelOptions = {}): Kernel & HostSides & RateLimits {
  const { allowOwnNetns = false, sourceCheck, record, addonPath } = options;
  const netnsOptions = { allowOwn: allowOwnNetns };
  let loaded: ApplyPorts | undefined;
  const ports = (): ApplyPorts => {
    if (loaded !== undefined) return loaded;
    const addon = loadAddon(addonPath);
    const forwarding = record === undefined ? {} : { record };
    loaded = { addon, deleter: new LinkDeleter(addon), netnsOptions, sourceCheck: sourceCheck ?? 'strict', forwarding };
    return loaded;
  };
  return {
    assertNetns: (path) => {
      using _netns = openNetns(ports().addon, path, netnsOptions);
    },
    apply: async (network, signal) => applyPodNetwork(ports(), network, signal),
    observe: (network) => observePodNetwork(ports().addon, network),
    remove: async (hostLinkName, owner) => removeLink(ports(), hostLinkName, owner),
    listHostLinks: () => {
      using host = RouteSocket.open(ports().addon);
      return listHostLinks(host);
    },
    listConnectedLinks: () => {
      using host = RouteSocket.open(ports().addon);
      return listConnectedLinks(host);
    },
    listIncompleteLinks: async ({ settings }) => {
      using host = RouteSocket.open(ports().addon);
      return await listIncompleteLinks(host, { settings, sourceCheck });
    },
    complete: (link) => {
      using host = RouteSocket.open(ports().addon);
      completeLink(host, link, sourceCheck);
    },
    listPodAddresses: async () => {
      using host = RouteSocket.open(ports().addon);
      return await listPodAddresses(host);
    },
    listRateLimits: async () => {
      using host = RouteSocket.open(ports().addon);
      return await listRateLimits(host);
    },
    boundRate: async (limit, bounds) => {
      using host = RouteSocket.open(ports().addon);
      await boundRate(host, limit, bounds);
    },
  };
}

async function removeLink(
  { addon, deleter }: ApplyPorts,
  hostLinkName: string,
  owner: Pick<LinkOwner, 'containerId' | 'ifName'>,
): Promise<boolean> {
  using host = RouteSocket.open(addon);
  const found = await findLinkOnWorker(host, hostLinkName);
  const link = found?.alias === '' ? await withOwner(host, found) : found;
  if (link === undefined || !isHostSide(link)) return false;
  const holder = decodeAlias(link.alias);
  const isOwned = holder?.containerId === owner.containerId && holder.ifName === owner.ifName;
  if (link.alias !== '' && !isOwned) return false;
  await deleter.delete(link);
  return true;
}

/**
 * Reads a link without an alias again. An ADD, of another process perhaps, has just created it and is about to set the
 * owner. If it was killed in between, the link still has none.
 */
async function withOwner(host: RouteSocket, { index, name }: Link): Promise<Link | undefined> {
  await sleep(OWNED_MS);
  return linkIn(host.ask(getLinkByIndex(index)), name);
}
