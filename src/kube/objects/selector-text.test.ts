import { expect, it } from 'vitest';
import { selectorText } from './selector-text.ts';

it('writes a label selector as a list takes it', () => {
  const matchExpressions = [
    { key: 'tier', operator: 'In', values: ['a', 'b'] },
    { key: 'env', operator: 'NotIn', values: ['test'] },
    { key: 'new', operator: 'Exists' },
    { key: 'old', operator: 'DoesNotExist' },
  ];
  expect(selectorText({ matchLabels: { app: 'web', 'x.io/y': '' }, matchExpressions })).toBe(
    'app=web,x.io/y=,tier in (a,b),env notin (test),new,!old',
  );
  expect(selectorText({})).toBe('');
});

it('writes none for what is no label selector', () => {
  for (const other of [undefined, 'app=web', { matchExpressions: [{ key: 'a', operator: 'Near' }] }])
    expect(selectorText(other)).toBeUndefined();
});
