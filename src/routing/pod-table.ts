import type { SourceCheck } from '../dataplane/kernel.ts';
import type { NftChain, NftObject, NftTable } from '../dataplane/packet-filter.ts';
import { parseCidr } from '../net/cidr.ts';
import { ACCEPT, COMES_FROM_POD, DROP, HAS_FOREIGN_SOURCE, headerAddress, isWithin, rule } from './nft-statements.ts';

export const POD_TABLE = 'netplug-pods';

/** Before connection tracking, which may translate the addresses that the pod sent. */
const CHAIN: NftChain = { name: 'prerouting', type: 'filter', hook: 'prerouting', prio: -300, policy: 'accept' };

const LOOPBACK = parseCidr('127.0.0.0/8');
const UNSPECIFIED = parseCidr('::/128');
const LINK_MULTICAST = parseCidr('ff02::/16');

/**
 * Renders the table that filters packets from pods of the node. Drops loopback addresses, which could reach the host when
 * portmap or kube-proxy enables `route_localnet`. Does not affect connections that the host translates from or to a
 * loopback address, because they have another address on the link. The strict check also drops foreign source addresses.
 */
export function renderPodTable(sourceCheck: SourceCheck): NftTable {
  const fromPod = (...expr: Parameters<typeof rule>[1][]): NftObject => rule(CHAIN.name, COMES_FROM_POD, ...expr);
  const [source, destination] = [headerAddress(4, 'saddr'), headerAddress(4, 'daddr')];
  const loopback = [source, destination].map((address) => fromPod(isWithin(address, LOOPBACK), DROP));
  // Duplicate address detection sends from the unspecified address.
  const isDetection = [
    isWithin(headerAddress(6, 'saddr'), UNSPECIFIED),
    isWithin(headerAddress(6, 'daddr'), LINK_MULTICAST),
  ];
  const strict = [fromPod(...isDetection, ACCEPT), fromPod(HAS_FOREIGN_SOURCE, DROP)];
  return { name: POD_TABLE, objects: [{ chain: CHAIN }, ...loopback, ...(sourceCheck === 'strict' ? strict : [])] };
}
