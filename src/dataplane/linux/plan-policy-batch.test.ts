import { expect, it } from 'vitest';
import type { FilterChain } from '../policy-filter.ts';
import { planPolicyParts } from './plan-policy-batch.ts';

it('divides chains without an owner, so that no part is larger than the kernel takes', () => {
  const jumps = Array.from({ length: 3000 }, () => ({
    id: 'tier',
    parts: [{ kind: 'jump', chain: 'policy' }] as const,
  }));
  const chains = new Map<string, FilterChain>([
    ['policy', { rules: [{ id: 'deny', parts: [{ kind: 'drop' }] }] }],
    ...Array.from({ length: 20 }, (_, index) => [`tier-${String(index)}`, { rules: jumps }] as const),
  ]);
  const parts = [...planPolicyParts({ name: 'wanted', chains, sets: new Map() })];
  const counts = parts.map(({ ruleOf }) => ruleOf.size);
  expect(counts.reduce((sum, count) => sum + count)).toBe(60_001);
  expect(Math.max(...counts)).toBeLessThanOrEqual(5000);
});
