import { digestOfText } from '../../dataplane/rule-digest.ts';
import type { PolicyRule } from '../resolved-policy.ts';
import type { RuleOrigin } from './policy-ruleset.ts';

const ID_CHARACTERS = 16;

/**
 * Returns the id of rules with that origin: in comments, counters and reports. A rule that does something else with packets has
 * another id, so that what an earlier rule at its place has counted does not become denied.
 */
export function idOfOrigin(origin: RuleOrigin): string {
  if ('rule' in origin) return idOfRule({ ...origin, action: origin.rule.action });
  return digestOf([
    origin.kind,
    'name' in origin ? origin.name : '',
    origin.direction,
    '',
    ...('policies' in origin ? origin.policies : []),
    ...('isForwarded' in origin ? ['forwarded'] : []),
  ]);
}

/** Identity of the rules of the table that come from one rule of a resource. */
export interface RuleIdentity extends Pick<
  Extract<RuleOrigin, { rule: unknown }>,
  'kind' | 'name' | 'direction' | 'index'
> {
  readonly action: PolicyRule['action'];
  readonly isStaged: boolean;
}

export function idOfRule({ kind, name, direction, index, action, isStaged }: RuleIdentity): string {
  return digestOf([kind, name, direction, String(index), action, isStaged ? 'staged' : 'enforced']);
}

function digestOf(parts: readonly string[]): string {
  return digestOfText(parts.join('|')).slice(0, ID_CHARACTERS);
}
