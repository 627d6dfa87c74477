import { expect, it } from 'vitest';
import { rangesOverlap } from './cidr.ts';

it.each<[string, string, boolean]>([
  ['10.0.0.0/8', '10.1.2.3', true],
  ['10.1.2.3', '10.0.0.0/8', true],
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['fd00::/48', 'fd00::1', true],
  ['0.0.0.0/0', 'fd00::1', false],
  ['10.0.0.1', '10.0.0.1', true],
  ['10.0.0.0/8', 'node-a', false],
])('rangesOverlap of %s and %s returns %s', (a, b, isOverlap) => {
  expect(rangesOverlap(a, b)).toBe(isOverlap);
});
