import type { Address, Family } from '../net/address.ts';
import type { PodNetwork, SourceCheck } from './kernel.ts';

/** One setting below `net`. Its path has slashes, because names of links may contain dots. */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** Skipped where the kernel does not have it. */
  readonly isOptional: boolean;
}

/** The settings that let a whole family forward. */
export const IPV4_SWITCH = 'ipv4/ip_forward';
export const IPV6_SWITCH = 'ipv6/conf/all/forwarding';

export function sysctl(path: string, value: number | string): Sysctl {
  return { path, value: String(value), isOptional: false };
}

export function optionalSysctl(path: string, value: number | string): Sysctl {
  return { path, value: String(value), isOptional: true };
}

export function sysctlName(path: string): string {
  return `net.${path.replaceAll('/', '.')}`;
}

export function familiesOf(addresses: readonly Address[]): ReadonlySet<Family> {
  return new Set(addresses.map(({ family }) => family));
}

/**
 * Returns the settings with which the host forwards packets of pods, the switches of whole families first, because they change
 * those of links. IPv4 asks the link by which a packet comes, so each of `ipv4Links` has its own setting, which may differ from
 * `ip_forward`. IPv6 asks only the setting of all links.
 */
export function forwardingSysctls(families: ReadonlySet<Family>, ipv4Links: readonly string[]): readonly Sysctl[] {
  return [
    ...(families.has(4) ? [sysctl(IPV4_SWITCH, 1)] : []),
    ...(families.has(6) ? [sysctl(IPV6_SWITCH, 1)] : []),
    // Optional because a link may be removed at any time.
    ...(families.has(4) ? ipv4Links.map((link) => optionalSysctl(`ipv4/conf/${link}/forwarding`, 1)) : []),
  ];
}

/**
 * Returns the settings of the host side of a link. The host answers ARP for the pod's gateway without delay and forwards
 * packets of the pod. It accepts no router advertisements from a pod, and the kernel generates no address for the link.
 * `route_localnet` stays off, so that a pod cannot reach loopback addresses of the host; the portmap plugin enables it
 * where it maps a port.
 */
export function hostSysctls(link: string, families: ReadonlySet<Family>): readonly Sysctl[] {
  const v4 = [
    sysctl(`ipv4/conf/${link}/forwarding`, 1),
    sysctl(`ipv4/conf/${link}/proxy_arp`, 1),
    sysctl(`ipv4/neigh/${link}/proxy_delay`, 0),
  ];
  const v6 = [
    // 1 is "none": the only address of the link is the gateway of the pod, which netplug adds.
    sysctl(`ipv6/conf/${link}/addr_gen_mode`, 1),
    sysctl(`ipv6/conf/${link}/accept_ra`, 0),
    sysctl(`ipv6/conf/${link}/accept_dad`, 0),
    sysctl(`ipv6/conf/${link}/disable_ipv6`, 0),
    sysctl(`ipv6/conf/${link}/proxy_ndp`, 1),
    sysctl(`ipv6/conf/${link}/forwarding`, 1),
    // Since Linux 6.17; older kernels forward from a link only when the whole host forwards.
    optionalSysctl(`ipv6/conf/${link}/force_forwarding`, 1),
  ];
  // Optional because a host without IPv6 lacks them. Other hosts must ignore IPv6 of an IPv4-only pod.
  const v6Closed = [
    optionalSysctl(`ipv6/conf/${link}/addr_gen_mode`, 1),
    optionalSysctl(`ipv6/conf/${link}/accept_ra`, 0),
  ];
  return [...(families.has(4) ? v4 : []), ...(families.has(6) ? v6 : v6Closed)];
}

/**
 * Returns the settings that make the kernel drop IPv4 packets of the link unless the host routes their source address to
 * the link. A value of 2 in `rp_filter` of `all` overrides them. IPv6 has no such setting.
 */
export function sourceCheckSysctls(
  link: string,
  families: ReadonlySet<Family>,
  sourceCheck: SourceCheck,
): readonly Sysctl[] {
  return families.has(4) ? [sysctl(`ipv4/conf/${link}/rp_filter`, sourceCheck === 'strict' ? 1 : 0)] : [];
}

/** Returns the settings of the pod's namespace in the order in which they must be written. */
export function podSysctls({
  podLinkName,
  addresses,
  allowIpForwarding,
}: Pick<PodNetwork, 'podLinkName' | 'addresses' | 'allowIpForwarding'>): readonly Sysctl[] {
  const families = familiesOf(addresses);
  const forwarding = allowIpForwarding ? 1 : 0;
  // A change of ip_forward resets other settings of the family, so it comes first.
  const v4 = [sysctl('ipv4/ip_forward', forwarding)];
  const v6 = [
    sysctl('ipv6/conf/all/forwarding', forwarding),
    // Some runtimes disable IPv6 in a new sandbox.
    sysctl('ipv6/conf/all/disable_ipv6', 0),
    sysctl('ipv6/conf/default/disable_ipv6', 0),
    sysctl('ipv6/conf/lo/disable_ipv6', 0),
    sysctl(`ipv6/conf/${podLinkName}/disable_ipv6`, 0),
    sysctl(`ipv6/conf/${podLinkName}/accept_dad`, 0),
  ];
  return [...(families.has(4) ? v4 : []), ...(families.has(6) ? v6 : [])];
}
