import type { FilterAction, FilterChain, FilterMatch, PacketLog, TableRule } from '../../dataplane/policy-filter.ts';

/** Returns the rules without the actions. A rule that would then only limit is left out. */
export function withoutLogs(
  rules: readonly TableRule[],
  missing: ReadonlySet<PacketLog> = new Set(),
): readonly TableRule[] {
  if (missing.size === 0) return rules;
  const isPresent = ({ kind }: FilterMatch | FilterAction): boolean =>
    !((kind === 'log' || kind === 'report') && missing.has(kind));
  return rules.flatMap((rule) => {
    const parts = rule.parts.filter(isPresent);
    if (parts.length === rule.parts.length) return [rule];
    const isLimited = ['limit', 'limit each'].includes(parts.at(-1)?.kind ?? '');
    return isLimited && !parts.some(({ kind }) => kind === 'count') ? [] : [{ ...rule, parts }];
  });
}

/** Returns the chains by name, as `withoutLogs` returns their rules. */
export function chainsWithoutLogs(
  chains: ReadonlyMap<string, FilterChain>,
  missing?: ReadonlySet<PacketLog>,
): ReadonlyMap<string, FilterChain> {
  return new Map([...chains].map(([name, chain]) => [name, { ...chain, rules: withoutLogs(chain.rules, missing) }]));
}
