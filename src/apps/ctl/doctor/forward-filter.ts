import { FAMILIES } from '../../../net/address.ts';
import { type Cidr, cidrContains, tryReadCidr } from '../../../net/cidr.ts';
import { HOST_LINK_PREFIX } from '../../../dataplane/kernel.ts';

/** A chain that sees every packet the host forwards, with the chains that it calls. */
export interface ForwardFilter {
  /** As nftables calls it; `inet` is both. */
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
  /** Whether it is one of the old iptables, which nftables does not show. */
  readonly isLegacy: boolean;
  readonly policy: 'accept' | 'drop';
  /** By chain. */
  readonly rules: Readonly<Record<string, readonly FilterRule[]>>;
}

export interface FilterRule {
  /** `iifname npl*`, `saddr 10.0.0.0/8` and the like; `?` for what is not understood. */
  readonly matches: readonly string[];
  /** Another chain as its name behind `>`; undefined for what decides nothing. */
  readonly action: 'accept' | 'drop' | 'return' | `>${string}` | undefined;
}

/** A filter that drops packets of pods. */
export interface ForwardDropper extends Pick<ForwardFilter, 'family' | 'table' | 'chain' | 'isLegacy'> {
  /** The chain where a rule of an administrator belongs. */
  readonly insertInto: string;
  readonly isUfw: boolean;
}

/** Docker calls it first, and leaves alone what is in it. */
const DOCKER_USER = 'DOCKER-USER';
const UFW = 'ufw-before-forward';

/** Those that drop a packet from or to a pod which none of their special rules is about. */
export function findDroppers(filters: readonly ForwardFilter[], pools: readonly Cidr[]): readonly ForwardDropper[] {
  return filters
    .filter((filter) => isDropping(filter, pools))
    .map(({ family, table, chain, isLegacy, rules }) => ({
      family,
      table,
      chain,
      isLegacy,
      insertInto: DOCKER_USER in rules ? DOCKER_USER : chain,
      isUfw: UFW in rules,
    }));
}

function isDropping(filter: ForwardFilter, pools: readonly Cidr[]): boolean {
  const directions = [
    { link: `iifname ${HOST_LINK_PREFIX}*`, field: 'saddr' },
    { link: `oifname ${HOST_LINK_PREFIX}*`, field: 'daddr' },
  ];
  const families = FAMILIES.filter((family) => filter.family === 'inet' || (filter.family === 'ip') === (family === 4));
  return families.some((family) => {
    const concerned = pools.filter(({ base }) => base.family === family);
    return directions.some(({ link, field }) => {
      const isMet = (match: string): boolean => match === link || isAround(match, field, concerned);
      return (verdictOf(filter, filter.chain, isMet) ?? filter.policy) === 'drop';
    });
  });
}

function isAround(match: string, field: string, pools: readonly Cidr[]): boolean {
  const [name, text = ''] = match.split(' ');
  const range = name === field ? tryReadCidr(text)?.cidr : undefined;
  return range !== undefined && pools.length > 0 && pools.every((pool) => cidrContains(range, pool));
}

/** What the chain decides about a packet that meets these matches alone. */
function verdictOf(
  filter: ForwardFilter,
  chain: string,
  isMet: (match: string) => boolean,
): 'accept' | 'drop' | undefined {
  for (const { matches, action } of filter.rules[chain] ?? []) {
    if (action === undefined || !matches.every(isMet)) continue;
    if (action === 'return') return undefined;
    const verdict = action.startsWith('>') ? verdictOf(filter, action.slice(1), isMet) : action;
    if (verdict === 'accept' || verdict === 'drop') return verdict;
  }
  return undefined;
}
