import { digestOfText } from '../../dataplane/rule-digest.ts';
import type { RuleOrigin } from './policy-ruleset.ts';

const ID_CHARACTERS = 16;

/**
 * Returns the id of rules with that origin: in comments, counters and reports. A rule that does something else with packets has
 * another id, so that what an earlier rule at its place has counted does not become denied.
 */
export function idOfOrigin(origin: RuleOrigin): string {
  const text = [
    origin.kind,
    'name' in origin ? origin.name : '',
    origin.direction,
    'index' in origin ? String(origin.index) : '',
    ...('rule' in origin ? [origin.rule.action, origin.isStaged ? 'staged' : 'enforced'] : []),
    ...('policies' in origin ? origin.policies : []),
    ...('isForwarded' in origin ? ['forwarded'] : []),
  ].join('|');
  return digestOfText(text).slice(0, ID_CHARACTERS);
}
