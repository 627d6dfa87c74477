import { expect, it } from 'vitest';
import type { PolicyRule } from '../resolved-policy.ts';
import type { RuleOrigin } from './policy-ruleset.ts';
import { idOfOrigin } from './rule-ids.ts';

it('gives a rule another id when another action stands at its place, or it is no longer staged', () => {
  const originOf = (action: PolicyRule['action'], isStaged: boolean): RuleOrigin => ({
    kind: 'policy',
    name: 'GlobalNetworkPolicy a',
    direction: 'ingress',
    index: 0,
    rule: { action, source: {}, destination: {}, index: 0 },
    isStaged,
  });
  const origins = [originOf('Allow', false), originOf('Deny', false), originOf('Allow', true), originOf('Deny', true)];
  expect(new Set(origins.map(idOfOrigin)).size).toBe(4);
  expect(idOfOrigin(originOf('Allow', false))).toBe(idOfOrigin(originOf('Allow', false)));
});
