import type { Address, Family } from '../net/address.ts';
import type { PodNetwork, SourceCheck } from './kernel.ts';

/** One setting below net; `path` with slashes, because names of links may contain dots. */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** Left out without a word where the kernel does not have it. */
  readonly isOptional: boolean;
}

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
 * What the host side of a link needs. The host answers for the pod's gateway (proxy ARP, at once) and forwards what
 * the pod sends; it takes no router advertisements from a pod and gives the link no address of its own choosing.
 * `route_localnet` stays off, so that the pod does not reach the loopback addresses of the host; portmap switches it on
 * where it has a port to map.
 */
export function hostSysctls(link: string, families: ReadonlySet<Family>): readonly Sysctl[] {
  const v4 = [
    sysctl(`ipv4/conf/${link}/forwarding`, 1),
    sysctl(`ipv4/conf/${link}/proxy_arp`, 1),
    sysctl(`ipv4/neigh/${link}/proxy_delay`, 0),
  ];
  const v6 = [
    // 1 is "none": the one address of the link is the pods' gateway, added by hand.
    sysctl(`ipv6/conf/${link}/addr_gen_mode`, 1),
    sysctl(`ipv6/conf/${link}/accept_ra`, 0),
    sysctl(`ipv6/conf/${link}/accept_dad`, 0),
    sysctl(`ipv6/conf/${link}/disable_ipv6`, 0),
    sysctl(`ipv6/conf/${link}/proxy_ndp`, 1),
    sysctl(`ipv6/conf/${link}/forwarding`, 1),
    // Since Linux 6.17; before, a link forwards only when the whole host does.
    optionalSysctl(`ipv6/conf/${link}/force_forwarding`, 1),
  ];
  // A host without IPv6 does not have these at all; a link of an IPv4-only pod must still be deaf on the others.
  const v6Closed = [
    optionalSysctl(`ipv6/conf/${link}/addr_gen_mode`, 1),
    optionalSysctl(`ipv6/conf/${link}/accept_ra`, 0),
  ];
  return [...(families.has(4) ? v4 : []), ...(families.has(6) ? v6 : v6Closed)];
}

/**
 * Has the kernel drop IPv4 packets that come from the link without the host having a route for their source by it, where
 * the host does not overrule that for all links (`rp_filter` of `all` is 2). IPv6 has no such setting.
 */
export function sourceCheckSysctls(
  link: string,
  families: ReadonlySet<Family>,
  sourceCheck: SourceCheck,
): readonly Sysctl[] {
  return families.has(4) ? [sysctl(`ipv4/conf/${link}/rp_filter`, sourceCheck === 'strict' ? 1 : 0)] : [];
}

/** Settings of the pod's namespace, in the order in which they have to be written. */
export function podSysctls({
  podLinkName,
  addresses,
  allowIpForwarding,
}: Pick<PodNetwork, 'podLinkName' | 'addresses' | 'allowIpForwarding'>): readonly Sysctl[] {
  const families = familiesOf(addresses);
  const forwarding = allowIpForwarding ? 1 : 0;
  // Changing ip_forward makes the kernel reset other settings of the family, so it comes before them.
  const v4 = [sysctl('ipv4/ip_forward', forwarding)];
  const v6 = [
    sysctl('ipv6/conf/all/forwarding', forwarding),
    // Some runtimes switch IPv6 off in a new sandbox, before they know what it will get.
    sysctl('ipv6/conf/all/disable_ipv6', 0),
    sysctl('ipv6/conf/default/disable_ipv6', 0),
    sysctl('ipv6/conf/lo/disable_ipv6', 0),
    sysctl(`ipv6/conf/${podLinkName}/disable_ipv6`, 0),
    sysctl(`ipv6/conf/${podLinkName}/accept_dad`, 0),
  ];
  return [...(families.has(4) ? v4 : []), ...(families.has(6) ? v6 : [])];
}
