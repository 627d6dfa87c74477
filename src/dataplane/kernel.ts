import { NetplugError } from '../base/errors.ts';
import { type Address, type Family, formatAddress } from '../net/address.ts';
import type { Cidr } from '../net/cidr.ts';
import type { Mac } from '../net/mac.ts';

/** Next hop of every route in a pod. IPv4 is answered by the host side; IPv6 is the host side's own link-local. */
export const GATEWAYS: Readonly<Record<Family, string>> = { 4: '169.254.1.1', 6: 'fe80::ecee:eeff:feee:eeee' };

/** Every host side netplug makes starts like this (design D8). */
export const HOST_LINK_PREFIX = 'npl';

/** `strict`: a pod sends with its own addresses only. */
export type SourceCheck = 'strict' | 'off';

/** Which attachment a link belongs to; kept in the alias of its host side, so the kernel alone can tell. */
export interface LinkOwner {
  readonly containerId: string;
  readonly ifName: string;
  readonly network: string;
}

/** The network of one pod as it shall be. */
export interface PodNetwork {
  readonly netns: string;
  readonly podLinkName: string;
  readonly hostLinkName: string;
  readonly owner: LinkOwner;
  readonly podMac: Mac;
  /** Bytes; undefined leaves the kernel's default. */
  readonly mtu: number | undefined;
  /** Receive and transmit queues of both ends. */
  readonly queues: number;
  /** Given to the pod as /32 and /128. */
  readonly addresses: readonly Address[];
  /** Destinations the pod reaches through the gateway of their family. */
  readonly routes: readonly Cidr[];
  /** Written to the pod for each of its families. */
  readonly allowIpForwarding: boolean;
}

/** One host side as the kernel shows it. */
export interface HostLink {
  readonly name: string;
  readonly index: number;
  readonly mac: Mac;
  readonly mtu: number;
  readonly isUp: boolean;
  /** From the alias; undefined when it has none of ours. */
  readonly owner: LinkOwner | undefined;
}

/** An address that the host routes to the link of a pod. */
export interface PodAddress {
  readonly address: Address;
  readonly owner: LinkOwner;
}

/** What the kernel shows of one pod's network; a part that is missing is undefined or empty. */
export interface PodNetworkState {
  readonly hostLink: HostLink | undefined;
  readonly podLink:
    | {
        readonly mac: Mac;
        readonly mtu: number;
        readonly isUp: boolean;
        /** Index of the other end, in the host's namespace when it lies there. */
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

/**
 * The kernel as the plugin needs it. `apply` either leaves everything in place or takes back what it did.
 * Messages name links, addresses and the namespace path.
 */
export interface Kernel {
  /** @throws kernel/netns-invalid when the path is missing, no network namespace, or the caller's own. */
  assertNetns(path: string): void;

  /**
   * Makes the link and everything on it. A host link of that name left by an earlier sandbox is replaced, and so is a
   * host route for one of the addresses that points to a netplug link without an owner; what is replaced is not brought
   * back when a later step fails.
   * @throws kernel/interface-exists when the pod has a link of that name, kernel/address-in-use when the host routes one
   * of the addresses to the link of another attachment, kernel/foreign-route when it routes one elsewhere,
   * kernel/netns-invalid, kernel/failed
   */
  apply(network: PodNetwork, signal: AbortSignal): Promise<{ readonly mtu: number }>;

  /** Reads, changes nothing; a namespace that is gone shows no pod link. */
  observe(network: PodNetwork): PodNetworkState;

  /**
   * Removes the link (both ends, its routes) if `owner` still owns it, or nobody ever came to own it; says whether there
   * was one to remove.
   */
  remove(hostLinkName: string, owner: Pick<LinkOwner, 'containerId' | 'ifName'>): Promise<boolean>;

  /** Every host side in the host's namespace, ordered by name. */
  listHostLinks(): readonly HostLink[];

  /** Every single address that the host routes to a link with an owner, in no order. */
  listPodAddresses(): Promise<readonly PodAddress[]>;
}

/** The refusal to route an address to a pod while another pod's link has it. */
export function addressInUse(address: Address, linkName: string, { containerId, ifName }: LinkOwner): NetplugError {
  const text = formatAddress(address);
  return new NetplugError(
    'kernel/address-in-use',
    `Cannot route ${text} to the pod: interface "${linkName}" of container "${containerId}" uses the address`,
    {
      hint: 'Try again for another address; "netplugctl ipam check" tells why the address was taken for free',
      facts: { address: text, link: linkName, containerId, ifName },
    },
  );
}
