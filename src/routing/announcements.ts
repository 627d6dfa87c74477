import type { BgpConfiguration } from '../model/bgp-configuration.ts';
import type { NodeName } from '../model/names.ts';
import type { Address } from '../net/address.ts';
import { type Cidr, cidrContains, formatCidr, hostCidr, parseCidr } from '../net/cidr.ts';
import type { ClusterState } from './cluster-state.ts';
import { isByBgp } from './pool-modes.ts';

/** A destination this node is the way to, for BGP. */
export interface Announcement {
  readonly cidr: Cidr;
  /** Values such as `65000:100`. */
  readonly communities: readonly string[];
}

/**
 * What this node announces: its blocks, and single addresses it has outside of them (borrowed, assigned without an
 * address manager, floating), as far as they lie in a pool in BGP mode that may be exported (specification, "Pod and
 * namespace annotations", rules 7 and 8).
 */
export function planAnnouncements(
  self: NodeName,
  state: Pick<ClusterState, 'pools' | 'blocksOf' | 'poolAround'>,
  {
    localAddresses,
    configuration,
  }: { readonly localAddresses: readonly Address[]; readonly configuration: BgpConfiguration | undefined },
): readonly Announcement[] {
  const concerned = state.blocksOf(self);
  const own = concerned.filter(({ node }) => node === self).map(({ cidr }) => cidr);
  const borrowed = concerned.flatMap((block) => block.borrowed.get(self) ?? []);
  const single = [...borrowed, ...localAddresses].map(hostCidr);
  const outside = single.filter((cidr) => !own.some((block) => cidrContains(block, cidr)));
  const unique = new Map([...own, ...outside].map((cidr) => [formatCidr(cidr), cidr]));
  return [...unique.values()]
    .filter((cidr) => isExported(state, cidr))
    .map((cidr) => ({ cidr, communities: communitiesOf(cidr, configuration) }));
}

function isExported(state: Pick<ClusterState, 'poolAround'>, cidr: Cidr): boolean {
  const pool = state.poolAround(cidr);
  return pool !== undefined && isByBgp(pool) && !pool.pool.spec.disableBGPExport;
}

/** By name or as a value; a name that stands for nothing is left out. */
function communitiesOf(cidr: Cidr, configuration: BgpConfiguration | undefined): readonly string[] {
  const { communities = [], prefixAdvertisements = [] } = configuration?.spec ?? {};
  const values = new Map(communities.map(({ name, value }) => [name, value]));
  const words = prefixAdvertisements
    .filter((advertisement) => cidrContains(parseCidr(advertisement.cidr), cidr))
    .flatMap((advertisement) => advertisement.communities);
  return [...new Set(words.flatMap((word) => values.get(word) ?? (/^\d+:\d+(:\d+)?$/.test(word) ? word : [])))];
}
