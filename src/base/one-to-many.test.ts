import { expect, it } from 'vitest';
import { OneToMany } from './one-to-many.ts';

const [a, b, c] = [{}, {}, {}];

it('has the values of each key, each once and in order', () => {
  const index = new OneToMany<string, object>();
  expect(index.get('key')).toEqual([]);
  for (const value of [a, b, a, c]) index.add('key', value);
  index.add('other', b);
  expect(index.get('key').map((value) => [a, b, c].indexOf(value))).toEqual([0, 1, 2]);
  index.delete('key', a);
  index.delete('key', a);
  expect(index.get('key').map((value) => [a, b, c].indexOf(value))).toEqual([1, 2]);
  index.delete('key', c);
  index.add('key', a);
  expect(index.get('key').map((value) => [a, b, c].indexOf(value))).toEqual([1, 0]);
  for (const value of [a, b, c]) index.delete('key', value);
  expect(index.get('key')).toEqual([]);
  expect(index.get('other')).toEqual([b]);
});
