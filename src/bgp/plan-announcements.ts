import { at, type Problem } from '../base/problem.ts';
import type { BgpConfiguration, BgpConfigurationSpec } from '../model/bgp-configuration.ts';
import type { IpPool } from '../model/ip-pool.ts';
import { type Cidr, cidrContains, compareCidrs, formatCidr, parseCidr } from '../net/cidr.ts';
import { clusterConfiguration } from './bgp-settings.ts';
import type { Community } from './session.ts';

/** A route that the node originates. */
export interface Announcement {
  readonly cidr: Cidr;
  readonly communities: readonly Community[];
}

export interface AnnouncementsInput {
  /** The node's blocks, and the single addresses it borrowed from blocks of other nodes. */
  readonly held: readonly Cidr[];
  readonly pools: readonly IpPool[];
  readonly configurations: readonly BgpConfiguration[];
}

export interface AnnouncementsPlan {
  /** Each CIDR once, in order. */
  readonly announcements: readonly Announcement[];
  /** Communities that cannot be sent, and are left out. */
  readonly problems: readonly Problem[];
}

const LARGEST_PARTS = { 2: 65_535, 3: 4_294_967_295 } as const;

/** Returns the ranges that BGP distributes: those of pools without encapsulation and without `disableBGPExport`. */
export function bgpPoolCidrs(pools: readonly IpPool[]): Cidr[] {
  return pools.filter(isDistributed).map(({ spec }) => parseCidr(spec.cidr));
}

/** Returns the prefixes that the node announces, with their communities. */
export function planAnnouncements({ held, pools, configurations }: AnnouncementsInput): AnnouncementsPlan {
  const distributed = bgpPoolCidrs(pools);
  const { rules, problems } = communityRules(clusterConfiguration(configurations));
  const byText = new Map(held.map((cidr) => [formatCidr(cidr), cidr]));
  const announcements = [...byText.values()]
    .filter((cidr) => distributed.some((pool) => cidrContains(pool, cidr)))
    .sort(compareCidrs)
    .map((cidr) => ({ cidr, communities: communitiesFor(cidr, rules) }));
  return { announcements, problems };
}

function isDistributed({ spec }: IpPool): boolean {
  return spec.ipipMode === 'Never' && spec.vxlanMode === 'Never' && !spec.disableBGPExport;
}

function communitiesFor(cidr: Cidr, rules: readonly Announcement[]): Community[] {
  const matching = rules.filter((rule) => cidrContains(rule.cidr, cidr)).flatMap(({ communities }) => communities);
  const byText = new Map(matching.map((community) => [community.join(':'), community]));
  return [...byText.values()];
}

function communityRules(configuration: BgpConfigurationSpec | undefined): {
  readonly rules: readonly Announcement[];
  readonly problems: readonly Problem[];
} {
  const values = new Map(configuration?.communities?.map(({ name, value }) => [name, value]));
  const problems: Problem[] = [];
  const rules = (configuration?.prefixAdvertisements ?? []).map((rule, index) => ({
    cidr: parseCidr(rule.cidr),
    communities: rule.communities.flatMap((text, position) => {
      const community = readCommunity(values.get(text) ?? text);
      if (community !== undefined) return [community];
      problems.push({
        path: at('BGPConfiguration', 'default', 'spec', 'prefixAdvertisements', index, 'communities', position),
        message: `"${text}" is not a community`,
        hint: 'Name one of spec.communities, or write aa:nn with parts up to 65535, or aa:nn:mm',
        code: 'bgp/peer-unusable',
      });
      return [];
    }),
  }));
  return { rules, problems };
}

function readCommunity(text: string): Community | undefined {
  if (!/^\d{1,10}(:\d{1,10}){1,2}$/.test(text)) return undefined;
  const [first = 0, second = 0, third] = text.split(':').map(Number);
  const parts = third === undefined ? ([first, second] as const) : ([first, second, third] as const);
  return parts.every((part) => part <= LARGEST_PARTS[parts.length]) ? parts : undefined;
}
