import type { Kernel, LinkOwner, SourceCheck } from '../kernel.ts';
import { type Addon, loadAddon } from './addon.ts';
import { type ApplyPorts, applyPodNetwork } from './apply.ts';
import { LinkDeleter } from './delete-links.ts';
import type { ForwardingRecorder } from './forwarding-record.ts';
import { decodeAlias } from '../link-alias.ts';
import { findLinkOnWorker, isHostSide, listHostLinks } from './links.ts';
import { openNetns } from './netns.ts';
import { observePodNetwork } from './observe.ts';
import { listPodAddresses } from './pod-addresses.ts';
import { RouteSocket } from './route-socket.ts';

export interface LinuxKernelOptions {
  /** Accepts the plugin's own namespace as that of a pod, as a runtime requests with CNI_NETNS_OVERRIDE. */
  readonly allowOwnNetns?: boolean;
  /** For links created from now on; `strict` unless given. */
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
export function linuxKernel(options: LinuxKernelOptions = {}): Kernel {
  const { allowOwnNetns = false, sourceCheck = 'strict', record, addonPath } = options;
  const netnsOptions = { allowOwn: allowOwnNetns };
  let loaded: ApplyPorts | undefined;
  const ports = (): ApplyPorts => {
    loaded ??= portsOf(loadAddon(addonPath), {
      netnsOptions,
      sourceCheck,
      forwarding: record === undefined ? {} : { record },
    });
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
    listPodAddresses: async () => {
      using host = RouteSocket.open(ports().addon);
      return await listPodAddresses(host);
    },
  };
}

function portsOf(addon: Addon, options: Pick<ApplyPorts, 'netnsOptions' | 'sourceCheck' | 'forwarding'>): ApplyPorts {
  return { addon, deleter: new LinkDeleter(addon), ...options };
}

async function removeLink(
  { addon, deleter }: ApplyPorts,
  hostLinkName: string,
  owner: Pick<LinkOwner, 'containerId' | 'ifName'>,
): Promise<boolean> {
  using host = RouteSocket.open(addon);
  const link = await findLinkOnWorker(host, hostLinkName);
  if (link === undefined || !isHostSide(link)) return false;
  const holder = decodeAlias(link.alias);
  // A link without an alias was left by an ADD that was killed before it could set the owner.
  const isUnowned = link.alias === '';
  const isOwned = holder?.containerId === owner.containerId && holder.ifName === owner.ifName;
  if (!isUnowned && !isOwned) return false;
  await deleter.delete(link);
  return true;
}
