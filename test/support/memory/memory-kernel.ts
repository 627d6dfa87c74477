import { NetplugError } from '../../../src/base/errors.ts';
import { type Address, type Family, formatAddress, parseAddress } from '../../../src/net/address.ts';
import { formatCidr, hostCidr } from '../../../src/net/cidr.ts';
import { HOST_MAC } from '../../../src/net/mac.ts';
import {
  addressInUse,
  GATEWAYS,
  HOST_LINK_PREFIX,
  type HostLink,
  type HostSides,
  type IncompleteLink,
  type Kernel,
  type PodAddress,
  type PodNetwork,
} from '../../../src/dataplane/kernel.ts';
import type { RateBounds, RateLimit, RateLimits } from '../../../src/dataplane/rate-limits.ts';
import { refuseOtherInterface } from '../../../src/dataplane/other-interface.ts';

/** The steps of `apply` and `remove` at which a fault can be injected, in order. */
export const MEMORY_STEPS = [
  'delete-leftover',
  'create-link',
  'configure-host',
  'configure-pod',
  'add-host-route',
  'remove-link',
] as const;
export type MemoryStep = (typeof MEMORY_STEPS)[number];

const DEFAULT_MTU = 1500;

interface Attachment {
  readonly network: PodNetwork;
  readonly index: number;
  isUp: boolean;
  hasGateway: boolean;
  /** Whether the ADD has made all of it. */
  isWhole: boolean;
}

interface Netns {
  readonly interfaces: Set<string>;
  readonly ipForwarding: Record<Family, boolean>;
}

/** A Kernel in memory, with methods for tests to prepare state and inject faults. */
export class MemoryKernel implements Kernel, HostSides, RateLimits {
  readonly #netns = new Map<string, Netns>();
  readonly #attachments = new Map<string, Attachment>();
  /** Device name by address text, of every host route for one address. */
  readonly #hostRoutes = new Map<string, string>();
  readonly #faults = new Map<MemoryStep, Error[]>();
  readonly #rateLimits = new Map<string, Omit<RateLimit, 'deviceIndex' | 'owner'> & { readonly link: string }>();
  readonly #wrongSysctls = new Map<string, string[]>();
  readonly #ending = new Set<string>();
  #nextIndex = 2;

  /** Adds a network namespace. */
  addNetns(path: string): void {
    this.#netns.set(path, { interfaces: new Set(), ipForwarding: { 4: false, 6: false } });
  }

  /** Removes a namespace and the links that end in it. */
  removeNetns(path: string): void {
    this.#netns.delete(path);
    for (const [name, { network }] of this.#attachments) if (network.netns === path) this.#detach(name);
  }

  /** Ends a namespace. Its links are there for a moment longer, as the real kernel takes time to remove them. */
  endNetns(path: string): void {
    this.#ending.add(path);
  }

  /** Adds an interface of another program to a pod. */
  addPodInterface(netns: string, name: string): void {
    this.#netnsAt(netns).interfaces.add(name);
  }

  /** Makes the host route an address to a device; a device with netplug's prefix counts as a leftover. */
  addHostRoute(address: Address, device: string): void {
    this.#hostRoutes.set(formatAddress(address), device);
  }

  /** Limits what the pod of the link receives or sends, as the standard bandwidth plugin does after the ADD. */
  limitRate(
    link: string,
    limit: Pick<RateLimit, 'direction' | 'bytesPerSecond' | 'burstBytes'> & { readonly queueBytes: number },
  ): void {
    const device = limit.direction === 'ingress' ? link : `bwp-${link}`;
    this.#rateLimits.set(device, { ...limit, link, device, isBounded: false });
  }

  /** Makes `observe` report that another program changed a host sysctl of a link, as `name=value`. */
  changeSysctl(hostLinkName: string, nameAndValue: string): void {
    this.#wrongSysctls.set(hostLinkName, [...(this.#wrongSysctls.get(hostLinkName) ?? []), nameAndValue]);
  }

  /** Sets the link down and up again: its routes and its gateway go. */
  flap(hostLinkName: string): void {
    const attachment = this.#attachments.get(hostLinkName);
    if (attachment !== undefined) attachment.hasGateway = false;
    for (const [address, device] of this.#hostRoutes) if (device === hostLinkName) this.#hostRoutes.delete(address);
  }

  /** Removes the route of the host to one address. */
  removeHostRoute(address: Address): void {
    this.#hostRoutes.delete(formatAddress(address));
  }

  setDown(hostLinkName: string): void {
    this.flap(hostLinkName);
    const attachment = this.#attachments.get(hostLinkName);
    if (attachment !== undefined) attachment.isUp = false;
  }

  /** Makes the step fail the next time; several calls queue up. */
  failAt(step: MemoryStep, cause: Error = failure(step)): void {
    this.#faults.set(step, [...(this.#faults.get(step) ?? []), cause]);
  }

  assertNetns(path: string): void {
    this.#netnsAt(path);
  }

  async apply(network: PodNetwork, signal: AbortSignal): Promise<{ readonly mtu: number }> {
    signal.throwIfAborted();
    const netns = this.#netnsAt(network.netns);
    const leftover = this.#attachments.get(network.hostLinkName);
    refuseOtherInterface(network.hostLinkName, leftover?.network.owner, network.owner);
    this.#refuseTakenName(network, netns, leftover);
    for (const address of network.addresses) this.#refuseRoute(address, network);
    if (leftover !== undefined) {
      this.#pass('delete-leftover', signal);
      this.#detach(network.hostLinkName);
    }
    // The real kernel allows other calls while it deletes a leftover.
    await Promise.resolve();
    const forwardingBefore = { ...netns.ipForwarding };
    this.#pass('create-link', signal);
    this.#attach(network, netns);
    try {
      this.#pass('configure-host', signal);
      this.#pass('configure-pod', signal);
      for (const { family } of network.addresses) netns.ipForwarding[family] = network.allowIpForwarding;
      for (const address of network.addresses) {
        this.#pass('add-host-route', signal);
        this.#refuseRoute(address, network);
        this.#hostRoutes.set(formatAddress(address), network.hostLinkName);
      }
    } catch (cause) {
      this.#detach(network.hostLinkName);
      Object.assign(netns.ipForwarding, forwardingBefore);
      throw cause;
    }
    const attachment = this.#attachments.get(network.hostLinkName);
    if (attachment !== undefined) attachment.isWhole = true;
    return { mtu: network.mtu ?? DEFAULT_MTU };
  }

  observe(network: PodNetwork): ReturnType<Kernel['observe']> {
    const attachment = this.#attachments.get(network.hostLinkName);
    const netns = this.#netns.get(network.netns);
    const here = this.#inPod(network);
    const addresses = network.addresses.map(formatAddress);
    return {
      hostLink: attachment === undefined ? undefined : toHostLink(attachment),
      podLink:
        here === undefined
          ? undefined
          : {
              mac: here.network.podMac,
              mtu: here.network.mtu ?? DEFAULT_MTU,
              isUp: true,
              peerIndex: here.index,
              queues: here.network.queues,
            },
      podAddresses: here?.network.addresses.map((address) => formatCidr(hostCidr(address))) ?? [],
      podRoutes: here?.network.routes.map((route) => `${formatCidr(route)} via ${GATEWAYS[route.base.family]}`) ?? [],
      hostRoutes: addresses.filter((address) => this.#hostRoutes.get(address) === network.hostLinkName),
      wrongSysctls: this.#wrongSysctls.get(network.hostLinkName) ?? [],
      ipForwarding: { ...(netns?.ipForwarding ?? { 4: false, 6: false }) },
    };
  }

  async remove(hostLinkName: string, owner: Parameters<Kernel['remove']>[1]): Promise<boolean> {
    await Promise.resolve();
    const attachment = this.#attachments.get(hostLinkName);
    const holder = attachment?.network.owner;
    if (holder?.containerId !== owner.containerId || holder.ifName !== owner.ifName) return false;
    this.#pass('remove-link');
    this.#detach(hostLinkName);
    return true;
  }

  listHostLinks(): readonly HostLink[] {
    return [...this.#attachments.values()].map(toHostLink).sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  listConnectedLinks(): readonly HostLink[] {
    const ending = new Set(
      [...this.#attachments].flatMap(([name, { network }]) => (this.#ending.has(network.netns) ? [name] : [])),
    );
    return this.listHostLinks().filter(({ name }) => !ending.has(name));
  }

  async listIncompleteLinks({
    settings,
  }: Parameters<HostSides['listIncompleteLinks']>[0]): Promise<readonly IncompleteLink[]> {
    await Promise.resolve();
    return [...this.#attachments.values()].flatMap((attachment) => {
      const { isUp, hasGateway, network } = attachment;
      const link = toHostLink(attachment);
      const addresses = this.#ownAddresses(attachment);
      const missing = [
        ...(isUp ? [] : ['it is down']),
        ...addresses
          .filter((address) => this.#hostRoutes.get(formatAddress(address)) !== link.name)
          .map((address) => `no route to ${formatAddress(address)}`),
        ...(!hasGateway && addresses.some(({ family }) => family === 6) ? ['no IPv6 gateway'] : []),
        ...(settings ? (this.#wrongSysctls.get(network.hostLinkName) ?? []) : []).map(
          (each) => `${each.split('=')[0] ?? ''} is changed`,
        ),
      ];
      return missing.length === 0 || addresses.length === 0 ? [] : { link: { ...link, addresses }, missing };
    });
  }

  complete({ name, index, addresses }: HostLink): void {
    const attachment = this.#attachments.get(name);
    if (attachment?.index !== index || addresses.length === 0) return;
    this.#wrongSysctls.delete(name);
    attachment.isUp = true;
    attachment.hasGateway = true;
    for (const address of addresses) {
      this.#refuseRoute(address, attachment.network);
      this.#hostRoutes.set(formatAddress(address), name);
    }
  }

  async listRateLimits(): Promise<readonly RateLimit[]> {
    await Promise.resolve();
    return [...this.#rateLimits.values()].flatMap(({ link, ...limit }) => {
      const attachment = this.#attachments.get(link);
      return attachment === undefined
        ? []
        : [{ ...limit, deviceIndex: attachment.index, owner: attachment.network.owner }];
    });
  }

  async boundRate({ device }: Pick<RateLimit, 'device'>, bounds: RateBounds): Promise<void> {
    await Promise.resolve();
    const limit = this.#rateLimits.get(device);
    if (limit !== undefined) this.#rateLimits.set(device, { ...limit, ...bounds, isBounded: true });
  }

  async listPodAddresses(): Promise<readonly PodAddress[]> {
    await Promise.resolve();
    return [...this.#hostRoutes].flatMap(([address, device]) => {
      const owner = this.#attachments.get(device)?.network.owner;
      return owner === undefined ? [] : { address: parseAddress(address), owner };
    });
  }

  /** The addresses that no newer link has. */
  #ownAddresses({ network, index, isWhole }: Attachment): readonly Address[] {
    if (!isWhole) return [];
    const newer = [...this.#attachments.values()].filter((other) => other.index > index && other.isWhole);
    const taken = new Set(newer.flatMap((other) => other.network.addresses.map(formatAddress)));
    return network.addresses.filter((address) => !taken.has(formatAddress(address)));
  }

  #netnsAt(path: string): Netns {
    const netns = this.#ending.has(path) ? undefined : this.#netns.get(path);
    if (netns !== undefined) return netns;
    throw new NetplugError('kernel/netns-invalid', `Cannot use network namespace "${path}": it does not exist`, {
      facts: { netns: path },
    });
  }

  #pass(step: MemoryStep, signal?: AbortSignal): void {
    signal?.throwIfAborted();
    const [cause, ...later] = this.#faults.get(step) ?? [];
    this.#faults.set(step, later);
    if (cause !== undefined) throw cause;
  }

  #inPod({ netns, podLinkName }: PodNetwork): Attachment | undefined {
    return [...this.#attachments.values()].find(
      ({ network }) => network.netns === netns && network.podLinkName === podLinkName,
    );
  }

  #refuseTakenName(network: PodNetwork, netns: Netns, leftover: Attachment | undefined): void {
    const { podLinkName } = network;
    const holder = this.#inPod(network);
    if (!netns.interfaces.has(podLinkName) && (holder === undefined || holder === leftover)) return;
    const what = `Cannot make interface "${podLinkName}" in namespace "${network.netns}": it exists`;
    throw new NetplugError('kernel/interface-exists', what, {
      facts: { netns: network.netns, interface: podLinkName },
    });
  }

  #refuseRoute(address: Address, { hostLinkName }: PodNetwork): void {
    const text = formatCidr(hostCidr(address));
    const device = this.#hostRoutes.get(formatAddress(address));
    if (device === undefined || device === hostLinkName) return;
    const user = this.#attachments.get(device);
    if (user !== undefined) throw addressInUse(address, device, user.network.owner);
    if (device.startsWith(HOST_LINK_PREFIX)) return;
    const what = `Cannot route ${formatAddress(address)} to the pod: the host already has route ${text}`;
    throw new NetplugError('kernel/foreign-route', `${what} on device "${device}"`, {
      facts: { address: formatAddress(address), device, type: 'unicast' },
    });
  }

  #attach(network: PodNetwork, netns: Netns): void {
    if (this.#attachments.has(network.hostLinkName)) throw failure('create-link');
    this.#refuseTakenName(network, netns, undefined);
    const index = this.#nextIndex;
    this.#nextIndex += 1;
    this.#attachments.set(network.hostLinkName, { network, index, isUp: true, hasGateway: true, isWhole: false });
  }

  #detach(hostLinkName: string): void {
    this.#attachments.delete(hostLinkName);
    this.#wrongSysctls.delete(hostLinkName);
    for (const [address, device] of this.#hostRoutes) {
      if (device === hostLinkName) this.#hostRoutes.delete(address);
    }
  }
}

function toHostLink({ network, index, isUp, isWhole }: Attachment): HostLink {
  return {
    name: network.hostLinkName,
    index,
    mac: HOST_MAC,
    mtu: network.mtu ?? DEFAULT_MTU,
    isUp,
    owner: network.owner,
    addresses: isWhole ? network.addresses : [],
  };
}

function failure(step: MemoryStep): NetplugError {
  return new NetplugError('kernel/failed', `Cannot pass step "${step}": the kernel says EIO`, {
    facts: { errno: 'EIO' },
  });
}
