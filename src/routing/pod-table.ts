import type { SourceCheck } from '../dataplane/kernel.ts';
import type { NftChain, NftObject, NftTable } from '../dataplane/packet-filter.ts';
import { parseCidr } from '../net/cidr.ts';
import { ACCEPT, COMES_FROM_POD, DROP, HAS_FOREIGN_SOURCE, headerAddress, isWithin, rule } from './nft-statements.ts';

export const POD_TABLE = 'netplug-pods';

/** Before connection tracking, so that addresses are those that the pod has written. */
const CHAIN: NftChain = { name: 'prerouting', type: 'filter', hook: 'prerouting', prio: -300, policy: 'accept' };

const LOOPBACK = parseCidr('127.0.0.0/8');
const UNSPECIFIED = parseCidr('::/128');
const LINK_MULTICAST = parseCidr('ff02::/16');

/**
 * The table that limits what pods of the node can send. Loopback addresses are dropped: `route_localnet`, which portmap
 * and kube-proxy switch on, lets them reach the host. Packets that the host itself translates from or to a loopback
 * address are not concerned, as they have another address on the link.
 */
export function renderPodTable(sourceCheck: SourceCheck): NftTable {
  const fromPod = (...expr: Parameters<typeof rule>[1][]): NftObject => rule(CHAIN.name, COMES_FROM_POD, ...expr);
  const [source, destination] = [headerAddress(4, 'saddr'), headerAddress(4, 'daddr')];
  const loopback = [source, destination].map((address) => fromPod(isWithin(address, LOOPBACK), DROP));
  // The detection of duplicate addresses sends without a source.
  const isDetection = [
    isWithin(headerAddress(6, 'saddr'), UNSPECIFIED),
    isWithin(headerAddress(6, 'daddr'), LINK_MULTICAST),
  ];
  const strict = [fromPod(...isDetection, ACCEPT), fromPod(HAS_FOREIGN_SOURCE, DROP)];
  return { name: POD_TABLE, objects: [{ chain: CHAIN }, ...loopback, ...(sourceCheck === 'strict' ? strict : [])] };
}
