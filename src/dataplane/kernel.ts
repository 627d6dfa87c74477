import { NetplugError } from '../base/errors.ts';
import { type Address, type Family, formatAddress } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Mac } from '../net/mac.ts';

/** Next hop of every route in a pod. The host side answers ARP for the IPv4 one; the IPv6 one is its link-local address. */
export const GATEWAYS: Readonly<Record<Family, string>> = { 4: '169.254.1.1', 6: 'fe80::ecee:eeff:feee:eeee' };

/** Prefix of the names of all host-side links of netplug. */
export const HOST_LINK_PREFIX = 'npl';

/** `strict`: the kernel drops packets of a pod with a source address that is not its own. */
export type SourceCheck = 'strict' | 'off';

/** The attachment that a link belongs to. It is stored in the alias of the host side, so that the kernel is its record. */
export interface LinkOwner {
  readonly containerId: string;
  readonly ifName: string;
  readonly network: string;
  /** Stands for the pod with its UID; absent without a pod, and in links of earlier builds. */
  readonly podMark?: string;
}

/** The desired network of one pod. */
export interface PodNetwork {
  readonly netns: string;
  readonly podLinkName: string;
  readonly hostLinkName: string;
  readonly owner: LinkOwner;
  readonly podMac: Mac;
  /** Bytes; undefined keeps the kernel's default. */
  readonly mtu: number | undefined;
  /** Receive and transmit queues of both ends. */
  readonly queues: number;
  /** Given to the pod as /32 and /128. */
  readonly addresses: readonly Address[];
  /** Destinations the pod reaches through the gateway of their family. */
  readonly routes: readonly Cidr[];
  /** Set in the pod for each of its families. */
  readonly allowIpForwarding: boolean;
}

/** One host-side link as the kernel reports it. */
export interface HostLink {
  readonly name: string;
  readonly index: number;
  readonly mac: Mac;
  readonly mtu: number;
  readonly isUp: boolean;
  /** From the alias; undefined when the alias is not netplug's. */
  readonly owner: LinkOwner | undefined;
  /** From the alias: what the host must route to the link. None until the ADD has made all of it. */
  readonly addresses: readonly Address[];
}

/** A link of a pod whose host side lacks what the ADD made. */
export interface IncompleteLink {
  readonly link: HostLink;
  /** Each as a clause, such as `no route to 10.65.0.1`. */
  readonly missing: readonly string[];
}

/** An address that the host routes to the link of a pod. */
export interface PodAddress {
  readonly address: Address;
  readonly owner: LinkOwner;
}

/** The actual state of one pod's network; a missing part is undefined or empty. */
export interface PodNetworkState {
  readonly hostLink: HostLink | undefined;
  readonly podLink:
    | {
        readonly mac: Mac;
        readonly mtu: number;
        readonly isUp: boolean;
        /** Index of the other end, in the namespace that contains it. */
        readonly peerIndex: number | undefined;
        readonly queues: number;
      }
    | undefined;
  /** Global addresses of the pod link with their prefix length, canonical text. */
  readonly podAddresses: readonly string[];
  /** `destination via gateway`, canonical text, of the pod link's routes that have a gateway. */
  readonly podRoutes: readonly string[];
  /** The pod's addresses that the host routes to the host link. */
  readonly hostRoutes: readonly string[];
  /** Host sysctls of the link that differ from what `apply` sets, as `name=value`. */
  readonly wrongSysctls: readonly string[];
  /** `net.ipv4.ip_forward` and `net.ipv6.conf.all.forwarding` of the pod. */
  readonly ipForwarding: Readonly<Record<Family, boolean>>;
}

/** The kernel as the plugin uses it. Error messages name links, addresses and the namespace path. */
export interface Kernel {
  /** @throws kernel/netns-invalid when the path is missing, not a network namespace, or the caller's own namespace */
  assertNetns(path: string): void;

  /**
   * Creates the link and configures it; undoes its changes when a step fails. Replaces a host link of that name left by
   * an earlier sandbox, and a host route for one of the addresses that leads to a netplug link without an owner. What
   * was replaced is not restored when a later step fails.
   * @throws kernel/interface-exists when the pod has a link of that name, kernel/address-in-use when the host routes one
   * of the addresses to the link of another attachment, kernel/foreign-route when it routes one elsewhere,
   * kernel/netns-invalid, kernel/failed
   */
  apply(network: PodNetwork, signal: AbortSignal): Promise<{ readonly mtu: number }>;

  /** Returns the actual state without changing it. A namespace that no longer exists has no pod link. */
  observe(network: PodNetwork): PodNetworkState;

  /** Removes the link, both ends and its routes, when it has this owner or none. Reports whether it was removed. */
  remove(hostLinkName: string, owner: Pick<LinkOwner, 'containerId' | 'ifName'>): Promise<boolean>;

  /** Returns every host-side link of netplug in the host's namespace, ordered by name. */
  listHostLinks(): readonly HostLink[];

  /**
   * Returns those of `listHostLinks` whose other end is in a network namespace that exists and is not the host's, under whatever
   * path. The kernel removes a link some time after the namespace of one of its ends has ended.
   */
  listConnectedLinks(): readonly HostLink[];

  /** Returns every single address that the host routes to a link with an owner, in no particular order. */
  listPodAddresses(): Promise<readonly PodAddress[]>;
}

/** The host sides of pod links, compared with what their ADD made. */
export interface HostSides {
  /**
   * Returns the links whose host side lacks what their ADD made: that they are up, routes, the IPv6 gateway and, with `settings`,
   * sysctls. Of two links with the same address the one with the greater index has it.
   */
  listIncompleteLinks(options: { readonly settings: boolean }): Promise<readonly IncompleteLink[]>;

  /**
   * Makes what the host side of the link lacks, for the addresses that are given. Does nothing when the link has gone.
   * @throws kernel/foreign-route when the host routes an address of it elsewhere, kernel/address-in-use, kernel/failed
   */
  complete(link: HostLink): void;
}

export function describeIncomplete({ link, missing }: IncompleteLink): string {
  return `interface "${link.name}" of container "${link.owner?.containerId ?? ''}": ${missing.join(', ')}`;
}

/** Returns the error for an address that the host already routes to the link of another pod. */
export function addressInUse(address: Address, linkName: string, { containerId, ifName }: LinkOwner): NetplugError {
  const text = formatAddress(address);
  return new NetplugError(
    'kernel/address-in-use',
    `Cannot route ${text} to the pod: interface "${linkName}" of container "${containerId}" uses the address`,
    {
      hint: 'Try again for another address; "netplugctl ipam check" shows why the address appeared to be free',
      facts: { address: text, link: linkName, containerId, ifName },
    },
  );
}
