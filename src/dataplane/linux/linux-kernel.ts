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
  /** Accepts the plugin's own namespace as a pod's: a runtime asks for that with CNI_NETNS_OVERRIDE. */
  readonly allowOwnNetns?: boolean;
  /** Of the links it makes; `strict` unless given. */
  readonly sourceCheck?: SourceCheck;
  /** Called before the host is let forward. */
  readonly record?: ForwardingRecorder;
  /** Where netns.node lies, for a bundle that does not carry it inside. */
  readonly addonPath?: string;
}

/**
 * The real kernel. Its host is the network namespace the calling thread is in, which must be the process's main
 * thread's and stay the same while a call runs. Nothing is opened before the first call or held between calls.
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
  // Without any alias it is the trace of an ADD that died in the instant between making and naming the link.
  const isNobodys = link.alias === '';
  const isTheirs = holder?.containerId === owner.containerId && holder.ifName === owner.ifName;
  if (!isNobodys && !isTheirs) return false;
  await deleter.delete(link);
  return true;
}
