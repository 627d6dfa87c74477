import { never } from '../../base/errors.ts';
import type { EndVerdict } from '../evaluate.ts';
import type { PacketPath } from '../packet-path.ts';
import type { PolicyView } from '../policy-view.ts';
import type { PolicyDirection } from '../resolved-policy.ts';
import type { RuleOrigin } from '../ruleset/policy-ruleset.ts';
import { idOfOrigin, idOfRule } from '../ruleset/rule-ids.ts';

const DIRECTIONS: readonly PolicyDirection[] = ['ingress', 'egress'];

/** Returns the id of the rule of the table that decides so. */
export function ruleOfDecision({ decision, direction, verdict }: EndVerdict, path: PacketPath): string {
  const rest = { direction, action: verdict === 'allow' ? 'Allow' : 'Deny', isStaged: false } as const;
  switch (decision.kind) {
    case 'rule':
      return idOfRule({ kind: 'policy', name: decision.policy, index: decision.index, ...rest });
    case 'profile rule':
      return idOfRule({ kind: 'profile', name: decision.profile, index: decision.index, ...rest });
    case 'tier default': {
      const forwarded = path === 'forwarded' ? ({ isForwarded: true } as const) : {};
      return idOfOrigin({ kind: 'tier', name: decision.tier, direction, ...forwarded });
    }
    case 'no profile':
      return idOfOrigin({ kind: 'profiles', direction });
    case 'no policy':
      return 'accept';
    case 'neighbour discovery':
      return 'neighbours';
    case 'open port':
      return decision.open.kind;
    default:
      return never(decision);
  }
}

/** Returns what rules of a table may come from, by their ids. */
export function originsIn(view: PolicyView): ReadonlyMap<string, RuleOrigin> {
  const policies = view.tiers.flatMap((tier) =>
    tier.policies.map(({ id: name, isStaged, rules }) => ({ name, isStaged, rules })),
  );
  const profileNames = new Set([...view.endpoints.values()].flatMap(({ profiles }) => profiles));
  const origins = DIRECTIONS.flatMap((direction): readonly RuleOrigin[] => [
    ...policies.flatMap(({ name, isStaged, rules }) =>
      (rules[direction] ?? []).map((rule): RuleOrigin => {
        return { kind: 'policy', name, direction, index: rule.index, rule, isStaged };
      }),
    ),
    ...[...profileNames].flatMap((name) =>
      (view.profile(name)?.rules[direction] ?? []).map((rule): RuleOrigin => {
        return { kind: 'profile', name, direction, index: rule.index, rule, isStaged: false };
      }),
    ),
    ...view.tiers.flatMap(({ name }): readonly RuleOrigin[] => [
      { kind: 'tier', name, direction },
      { kind: 'tier', name, direction, isForwarded: true },
    ]),
    { kind: 'profiles', direction },
    { kind: 'unknown interface', direction },
  ]);
  return new Map([...origins, TO_HOST].map((origin) => [idOfOrigin(origin), origin]));
}

/** The node accepts no packets of its pods. */
export const TO_HOST: RuleOrigin = { kind: 'to host', direction: 'egress' };
