import type { HostInterface } from '../dataplane/host-network.ts';
import { describeRange, type UsedRange } from '../model/used-range.ts';
import type { Address } from '../net/address.ts';
import { cidrAround, hostCidr } from '../net/cidr.ts';
import { isTunnelDevice } from './tunnels.ts';

/** Prefixes of the names of links that connect pods, also those of another plugin. Their networks lie in ranges of pods. */
const POD_LINKS = ['cali', 'tunl', 'flannel', 'cni', 'cilium', 'vxlan.', 'veth', 'npl'] as const;
/**
 * Prefix of the name of the link on which kube-proxy with IPVS has the addresses of Services. Users of the cluster choose these: one
 * in a pool must not close the pool on every node.
 */
const SERVICE_LINKS = 'kube-ipvs';

/**
 * Returns the ranges that the node itself needs, over which no route of the agent may lead: the networks of its interfaces,
 * and the addresses of the API server and the datastore.
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
        addresses.map(({ address, prefixBits }) => ({
          cidr: cidrAround(address, prefixBits),
          what: `the network of interface "${name}"`,
        })),
      ),
  ];
  return [...new Map(ranges.map((range) => [describeRange(range), range])).values()];
}

function isPodLink(name: string): boolean {
  return isTunnelDevice(name) || POD_LINKS.some((start) => name.startsWith(start));
}
