import { expect, it } from 'vitest';
import type { RuleOrigin } from '../../../../policy/ruleset/policy-ruleset.ts';
import { RuleCounters } from './rule-counters.ts';

const ORIGIN: RuleOrigin = { kind: 'tier', name: 'default', direction: 'ingress' };
const ORIGINS = new Map([['a', ORIGIN]]);
const counts = (packets: number, chain = 'x') => [{ chain, rule: 'a', packets: BigInt(packets), bytes: 0n }];

it('counts from the first reading on, although the rule is known later, and goes on when the kernel starts at 0', () => {
  const counters = new RuleCounters();
  counters.add(counts(100), new Map());
  const seen = [100, 130, 5, 5].map((packets) => {
    counters.add(counts(packets), ORIGINS);
    return counters.list()[0]?.packets;
  });
  expect(seen).toEqual([undefined, 30, 35, 35]);
});

it('counts a rule that comes later from 0, and forgets one that is removed', () => {
  const counters = new RuleCounters();
  counters.add([], new Map());
  counters.add(counts(7), ORIGINS);
  expect(counters.list()).toEqual([expect.objectContaining({ origin: ORIGIN, packets: 7 })]);
  counters.add(counts(9), new Map());
  expect(counters.list()).toEqual([]);
});

it('counts a rule of several chains once, also when one of them goes and another comes', () => {
  const counters = new RuleCounters();
  counters.add([], ORIGINS);
  const readings = [
    [...counts(1000, 'x'), ...counts(500, 'y')],
    counts(1000, 'x'),
    [...counts(1001, 'x'), ...counts(2, 'y')],
  ];
  const seen = readings.map((reading) => {
    counters.add(reading, ORIGINS);
    return counters.list()[0]?.packets;
  });
  expect(seen).toEqual([1500, 1500, 1503]);
});
