import { expect, it } from 'vitest';
import { getOrInsert } from './get-or-insert.ts';

it('makes the value of a key once', () => {
  const lists = new Map<string, number[]>();
  getOrInsert(lists, 'a', () => []).push(1);
  getOrInsert(lists, 'a', () => []).push(2);
  expect([...lists]).toEqual([['a', [1, 2]]]);
});
