import { ownValue } from '../../../base/own-value.ts';
import type { Family } from '../../../net/address.ts';
import { meetsAll } from './meet-traffic.ts';
import type { FilteredHook, NeededTraffic } from './traffic.ts';

/** A base chain of a host firewall, with the chains that it calls. */
export interface HostFilter {
  /** Family in nftables; `inet` covers both. */
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly table: string;
  readonly chain: string;
  readonly hook: FilteredHook;
  /** Whether the chain belongs to legacy iptables, which nftables does not list. */
  readonly isLegacy: boolean;
  readonly policy: 'accept' | 'drop';
  /** By chain. */
  readonly rules: Readonly<Record<string, readonly FilterRule[]>>;
}

export interface FilterRule {
  /**
   * Field and values, after a `!` those that it must not have: `family 4`, `iifname npl*`, `dport 22 4000-5000`. `?` stands for
   * a match of special packets, `? set known` for one that may match all packets or none.
   */
  readonly matches: readonly string[];
  /**
   * `>` and a name jump to a chain, `>>` do not come back; `?` and a name are what was not read; undefined decides nothing.
   */
  readonly action: 'accept' | 'drop' | 'return' | `>${string}` | `?${string}` | undefined;
}

/** What a filter does with packets; after a `?`, why that is not known. */
export type Verdict = 'accept' | 'drop' | `?${string}`;

/** Reports whether the kernel shows packets of the traffic to the filter. */
export function concerns({ family, hook }: Pick<HostFilter, 'family' | 'hook'>, traffic: NeededTraffic): boolean {
  return hook === traffic.hook && (family === 'inet' || familyOf(family) === traffic.family);
}

function familyOf(family: 'ip' | 'ip6'): Family {
  return family === 'ip' ? 4 : 6;
}

/**
 * Returns what the filter does with the traffic in general: rules for special packets do not count. It is not known where a
 * rule that may match lets packets escape from one that drops.
 */
export function verdictOn(filter: HostFilter, traffic: NeededTraffic): Verdict {
  const walk = new FilterWalk(filter, traffic);
  const verdict = walk.verdictOf(filter.chain) ?? filter.policy;
  return verdict === 'drop' && walk.doubt !== undefined ? `?${walk.doubt}` : verdict;
}

class FilterWalk {
  /** What may have let packets pass before. */
  doubt: string | undefined;
  readonly #rules: HostFilter['rules'];
  readonly #traffic: NeededTraffic;
  readonly #known = new Map<string, Verdict | undefined>();

  constructor({ rules }: HostFilter, traffic: NeededTraffic) {
    this.#rules = rules;
    this.#traffic = traffic;
  }

  /** Returns what the chain decides; undefined where the packet comes back from it. */
  verdictOf(chain: string): Verdict | undefined {
    if (!this.#known.has(chain)) this.#known.set(chain, this.#walk(chain));
    return this.#known.get(chain);
  }

  #walk(chain: string): Verdict | undefined {
    for (const { matches, action } of ownValue(this.#rules, chain) ?? []) {
      const answer = action === undefined ? false : meetsAll(matches, this.#traffic);
      if (action === undefined || answer === false) continue;
      if (answer !== true) {
        if (this.#mayEscapeBy(action)) this.doubt ??= answer;
        continue;
      }
      if (action === 'return') return undefined;
      if (isGoto(action)) return this.verdictOf(action.slice(2));
      const verdict = isJump(action) ? this.verdictOf(action.slice(1)) : action;
      if (verdict !== undefined) return verdict;
    }
    return undefined;
  }

  /** Reports whether packets that the rule matches may pass, or leave the chain. */
  #mayEscapeBy(action: NonNullable<FilterRule['action']>): boolean {
    if (isGoto(action)) return this.verdictOf(action.slice(2)) !== 'drop';
    if (isJump(action)) return this.verdictOf(action.slice(1)) === 'accept';
    return action === 'accept' || action === 'return';
  }
}

function isJump(action: string): action is `>${string}` {
  return action.startsWith('>');
}

function isGoto(action: string): boolean {
  return action.startsWith('>>');
}
