import { expect, it } from 'vitest';
import { withReadableRules } from './readable-rules.ts';

const noted = { action: 'Allow', metadata: { annotations: { 'netplug/rule': '7' } } };

function numbersIn(metadata: object): readonly unknown[] {
  const spec = { types: ['Ingress'], ingress: [{ action: 'Perhaps' }, noted] };
  const read = withReadableRules({ kind: 'NetworkPolicy', metadata: { namespace: 'shop', ...metadata }, spec });
  return numberedIn(read?.['spec']);
}

function numberedIn(spec: unknown): readonly unknown[] {
  const { ingress } = spec as { readonly ingress: readonly (typeof noted)[] };
  return ingress.map((rule) => rule.metadata.annotations['netplug/rule']);
}

it('a rule keeps its place as its number when one before it cannot be read, whatever a user notes on it', () => {
  expect(numbersIn({ name: 'a' })).toEqual(['1']);
});

it('a rule that stands for one of a Kubernetes policy keeps the number of that one', () => {
  expect(numbersIn({ name: 'knp.default.a' })).toEqual(['7']);
});
