import { ownValue } from '../../../base/own-value.ts';
import { FAMILIES } from '../../../net/address.ts';
import { type Cidr, cidrContains, tryReadCidr } from '../../../net/cidr.ts';
import { HOST_LINK_PREFIX } from '../../../dataplane/kernel.ts';

/** A base chain of the forward hook, with the chains that it calls. */
export interface ForwardFilter {
  /** Family in nftables; `inet` covers both. */
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
  /** Whether the chain belongs to legacy iptables, which nftables does not list. */
  readonly isLegacy: boolean;
  readonly policy: 'accept' | 'drop';
  /** By chain. */
  readonly rules: Readonly<Record<string, readonly FilterRule[]>>;
}

export interface FilterRule {
  /** Example: `iifname npl*` and `saddr 10.0.0.0/8`; `?` for a match that is not recognized. */
  readonly matches: readonly string[];
  /** `>` and a name jump to a chain; undefined decides nothing. */
  readonly action: 'accept' | 'drop' | 'return' | `>${string}` | undefined;
}

/** A filter that drops packets of pods. */
export interface ForwardDropper extends Pick<ForwardFilter, 'family' | 'table' | 'chain' | 'isLegacy'> {
  /** The chain where a rule of an administrator belongs. */
  readonly insertInto: string;
  readonly isUfw: boolean;
}

/** The chain that Docker calls first and leaves to administrators. */
const DOCKER_USER = 'DOCKER-USER';
const UFW = 'ufw-before-forward';

/** Returns the filters that drop packets from or to pods in general; rules for special packets do not count. */
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

/** Returns the verdict of the chain on a packet that only these matches match. */
function verdictOf(
  filter: ForwardFilter,
  chain: string,
  isMet: (match: string) => boolean,
): 'accept' | 'drop' | undefined {
  for (const { matches, action } of ownValue(filter.rules, chain) ?? []) {
    if (action === undefined || !matches.every(isMet)) continue;
    if (action === 'return') return undefined;
    const verdict = action.startsWith('>') ? verdictOf(filter, action.slice(1), isMet) : action;
    if (verdict === 'accept' || verdict === 'drop') return verdict;
  }
  return undefined;
}
