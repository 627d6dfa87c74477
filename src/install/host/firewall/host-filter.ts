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
  /** Example: `family 4`, `iifname npl*` and `saddr 10.0.0.0/8`; `?` for a match of special packets. */
  readonly matches: readonly string[];
  /** `>` and a name jump to a chain; `?` and a name are what was not read; undefined decides nothing. */
  readonly action: 'accept' | 'drop' | 'return' | `>${string}` | `?${string}` | undefined;
}

/** A filter that drops packets of pods. */
export interface ForwardDropper extends Pick<ForwardFilter, 'family' | 'table' | 'chain' | 'isLegacy'> {
  /** The chain where a rule of an administrator belongs. */
  readonly insertInto: string;
  readonly isUfw: boolean;
}

/** A filter of which it is not known what it does with packets of pods. */
export interface UnreadFilter extends Pick<ForwardFilter, 'family' | 'table' | 'chain'> {
  /** What the doctor does not know. */
  readonly what: string;
}

/** The chain that Docker calls first and leaves to administrators. */
const DOCKER_USER = 'DOCKER-USER';
const UFW = 'ufw-before-forward';

/** Returns the filters that drop packets from or to pods in general; rules for special packets do not count. */
export function findDroppers(filters: readonly ForwardFilter[], pools: readonly Cidr[]): readonly ForwardDropper[] {
  return filters
    .filter((filter) => verdictsOf(filter, pools).includes('drop'))
    .map(({ family, table, chain, isLegacy, rules }) => ({
      family,
      table,
      chain,
      isLegacy,
      insertInto: DOCKER_USER in rules ? DOCKER_USER : chain,
      isUfw: UFW in rules,
    }));
}

/** Returns the filters whose verdict about packets of pods depends on what was not read. */
export function findUnread(filters: readonly ForwardFilter[], pools: readonly Cidr[]): readonly UnreadFilter[] {
  return filters.flatMap((filter) => {
    const verdicts = verdictsOf(filter, pools);
    const what = verdicts.find((verdict) => verdict.startsWith('?'))?.slice(1);
    const { family, table, chain } = filter;
    return what === undefined || verdicts.includes('drop') ? [] : [{ family, table, chain, what }];
  });
}

/** Returns the verdicts on packets from pods and to pods, by family. */
function verdictsOf(filter: ForwardFilter, pools: readonly Cidr[]): readonly Verdict[] {
  const directions = [
    { link: `iifname ${HOST_LINK_PREFIX}*`, field: 'saddr' },
    { link: `oifname ${HOST_LINK_PREFIX}*`, field: 'daddr' },
  ];
  const families = FAMILIES.filter((family) => filter.family === 'inet' || (filter.family === 'ip') === (family === 4));
  return families.flatMap((family) => {
    const concerned = pools.filter(({ base }) => base.family === family);
    return directions.map(({ link, field }) => {
      const isMet = (match: string): boolean =>
        match === link || match === `family ${String(family)}` || isAround(match, field, concerned);
      return verdictOf(filter, filter.chain, isMet) ?? filter.policy;
    });
  });
}

function isAround(match: string, field: string, pools: readonly Cidr[]): boolean {
  const [name, text = ''] = match.split(' ');
  const range = name === field ? tryReadCidr(text)?.cidr : undefined;
  return range !== undefined && pools.length > 0 && pools.every((pool) => cidrContains(range, pool));
}

type Verdict = 'accept' | 'drop' | `?${string}`;

/** Returns the verdict of the chain on a packet that only these matches match. */
function verdictOf(filter: ForwardFilter, chain: string, isMet: (match: string) => boolean): Verdict | undefined {
  for (const { matches, action } of ownValue(filter.rules, chain) ?? []) {
    if (action === undefined || !matches.every(isMet)) continue;
    if (action === 'return') return undefined;
    const verdict = isJump(action) ? verdictOf(filter, action.slice(1), isMet) : action;
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

function isJump(action: Verdict | `>${string}`): action is `>${string}` {
  return action.startsWith('>');
}
