import type { FlowVerdict } from '../../../model/shown-flows.ts';
import type { RuleOrigin } from '../../../policy/ruleset/policy-ruleset.ts';

/** Returns what a rule of that origin does with packets; undefined for a rule that neither denies, logs nor is staged. */
export function verdictOfOrigin(origin: RuleOrigin): Exclude<FlowVerdict, 'allowed'> | undefined {
  if (origin.kind === 'staged tier') return 'staged deny';
  if (origin.kind !== 'policy' && origin.kind !== 'profile') return 'denied';
  const { action } = origin.rule;
  if (origin.isStaged) return STAGED[action];
  if (action === 'Deny') return 'denied';
  return action === 'Log' ? 'logged' : undefined;
}

const STAGED = { Allow: 'staged allow', Deny: 'staged deny', Log: 'staged log', Pass: undefined } as const;
