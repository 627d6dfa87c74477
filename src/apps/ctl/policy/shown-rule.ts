import { describeRule } from '../../../policy/describe-rule.ts';
import type { PolicyDirection, PolicyRule } from '../../../policy/resolved-policy.ts';

/** A rule, where its resource has it, and what it says. */
export interface ShownRule {
  /** Example: `ingress[0]`. */
  readonly place: string;
  readonly text: string;
}

export function showRule(direction: PolicyDirection, rule: PolicyRule): ShownRule {
  return { place: `${direction}[${String(rule.index)}]`, text: describeRule(rule) };
}
