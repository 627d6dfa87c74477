import type { HostInterface } from '../dataplane/host-network.ts';
import { describeRange, type UsedRange } from '../model/used-range.ts';
import type { Address } from '../net/address.ts';
import { cidrAround, hostCidr } from '../net/cidr.ts';
import { isHostAddress, isLocalAddress } from './detect-address.ts';
import { isTunnelDevice } from './tunnels.ts';

/** Prefixes of the names of links that connect pods, also those of another plugin. Their networks lie in ranges of pods. */
const POD_LINKS = ['cali', 'tunl', 'flannel', 'cni', 'cilium', 'vxlan.', 'veth', 'npl'] as const;
/** Prefix of the name of the link on which kube-proxy with IPVS has the addresses of Services. */
const SERVICE_LINKS = 'kube-ipvs';

/**
 * Returns the ranges that the node itself needs, over which no route of the agent may lead: the networks of its interfaces,
 * and the addresses of the API server and the datastore. Addresses of Services are none of them: users of the cluster choose these, and
 * one in a pool must not close the pool on every node.
 */
export function protectedRanges(
  interfaces: readonly Pick<HostInterface, 'name' | 'addresses'>[],
  servers: readonly Address[],
): readonly UsedRange[] {
  const ranges = [
    ...servers.map((address) => ({ cidr: hostCidr(address), what: 'the address of a server' })),
    ...interfaces
      .filter(({ name }) => !isPodLink(name) && !name.startsWith(SERVICE_LINKS))
      .flatMap(({ name, addresses }) =>
        lastingOf(addresses).map(({ address, prefixBits }) => ({
          cidr: cidrAround(address, prefixBits),
          what: `the network of interface "${name}"`,
        })),
      ),
  ];
  return [...new Map(ranges.map((range) => [describeRange(range), range])).values()];
}

/**
 * Returns the addresses without those that programs such as kube-vip add for Services: addresses without a network on a link that
 * has one. A link without one, such as that of BGP to the host, has the address of the node.
 */
function lastingOf(addresses: HostInterface['addresses']): HostInterface['addresses'] {
  const networks = addresses.filter((each) => !isHostAddress(each) && !isLocalAddress(each.address));
  const families = new Set(networks.map(({ address }) => address.family));
  return addresses.filter((each) => !isHostAddress(each) || !families.has(each.address.family));
}

function isPodLink(name: string): boolean {
  return isTunnelDevice(name) || POD_LINKS.some((start) => name.startsWith(start));
}
