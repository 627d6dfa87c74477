import { expect, it } from 'vitest';
import type { SoakCase } from '../../test/soak-cases.ts';
import { expectedMinutes, orderByDue, runsForAll } from './choose-cases.ts';

const CASES: readonly SoakCase[] = ['a', 'b', 'c', 'd'].map((name) => ({ name, args: [], minutes: 10 }));
const RECORD = {
  a: { at: '2026-11-28T10:00:00.000Z', minutes: 3 },
  b: { at: '2026-11-27T10:00:00.000Z', minutes: 4 },
};
const names = (cases: readonly SoakCase[]): string => cases.map(({ name }) => name).join('');

it('the soak begins with the cases that never passed, and goes on with the oldest', () => {
  expect(names(orderByDue(CASES, RECORD, 'abc'))).toMatch(/^(cd|dc)ba$/);
});

it('without a record the commit decides the order of the soak, and repeats it', () => {
  const orders = ['1', '2', '3', '4', '5', '6', '7', '8'].map((commit) => names(orderByDue(CASES, {}, commit)));
  expect(new Set(orders).size).toBeGreaterThan(1);
  expect(names(orderByDue(CASES, {}, '3'))).toBe(orders[2]);
});

it('a case of the soak is expected to take what its last run took', () => {
  expect(CASES.map((each) => expectedMinutes(each, RECORD))).toEqual([3, 4, 10, 10]);
});

it('the number of runs in which the whole soak has run counts what a share cannot fill', () => {
  expect(runsForAll(CASES, RECORD, 20)).toBe(3);
  expect(runsForAll(CASES, RECORD, 9)).toBe(Infinity);
});
