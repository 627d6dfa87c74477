import { expect, it } from 'vitest';
import type { FilterChain, FilterSet, FilterTable } from '../policy-filter.ts';
import { noteChange } from '../changed-sets.ts';
import { actualAfter, planPolicyBatch, planPolicyParts } from './plan-policy-batch.ts';

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

it('plans a large set by how it was made from what the kernel has, and compares it with anything else', () => {
  const setOf = (...elements: string[]): FilterSet => ({ kind: 'nets', family: 4, elements: new Set(elements) });
  const tableOf = (set: FilterSet): FilterTable => ({ name: 't', chains: new Map(), sets: new Map([['s', set]]) });
  const [first, second, third] = [setOf('10.0.0.0/8'), setOf('11.0.0.0/8'), setOf('11.0.0.0/8', '12.0.0.0/8')];
  noteChange(second, first, { added: ['11.0.0.0/8'], removed: ['10.0.0.0/8'] });
  noteChange(third, second, { added: ['12.0.0.0/8'], removed: [] });
  const elementsFrom = (before: FilterSet, after: FilterSet): readonly number[] => {
    const { change, messages } = planPolicyBatch(tableOf(after), actualAfter(tableOf(before), undefined));
    return [change.elements, messages.length];
  };
  expect(elementsFrom(first, second)).toEqual([2, 2]);
  expect(elementsFrom(second, third)).toEqual([1, 1]);
  // The second one was never written.
  expect(elementsFrom(first, third)).toEqual([3, 2]);
  expect(elementsFrom(third, first)).toEqual([3, 2]);
});
