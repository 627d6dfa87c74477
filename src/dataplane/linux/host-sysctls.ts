import type { Family } from '../../net/address.ts';
import { type Sysctl, isDifferent, optionalSysctl, readSysctl, sysctl, sysctlName } from './sysctl.ts';

/**
 * What the host side of a link needs. The host answers for the pod's gateway (proxy ARP, at once) and forwards what
 * the pod sends; it takes no router advertisements from a pod and gives the link no address of its own choosing.
 */
export function hostSysctls(link: string, families: ReadonlySet<Family>): readonly Sysctl[] {
  const v4 = [
    sysctl(`ipv4/conf/${link}/forwarding`, 1),
    sysctl(`ipv4/conf/${link}/route_localnet`, 1),
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
    // Since Linux 6.17; before, a link forwards only when the whole host does (host-forwarding.ts).
    optionalSysctl(`ipv6/conf/${link}/force_forwarding`, 1),
  ];
  // A host without IPv6 does not have these at all; a link of an IPv4-only pod must still be deaf on the others.
  const v6Closed = [
    optionalSysctl(`ipv6/conf/${link}/addr_gen_mode`, 1),
    optionalSysctl(`ipv6/conf/${link}/accept_ra`, 0),
  ];
  return [...(families.has(4) ? v4 : []), ...(families.has(6) ? v6 : v6Closed)];
}

/** Those of `wanted` that read differently, as `name=value`. */
export function differingSysctls(wanted: readonly Sysctl[]): readonly string[] {
  return wanted.filter(isDifferent).map(({ path }) => `${sysctlName(path)}=${readSysctl(path) ?? 'missing'}`);
}
