import { describe, expect, it } from 'vitest';
import { nearMiss } from './near-miss.ts';

describe('the candidate for a misspelled word', () => {
  it.each([
    ['kv_endpoint', 'kv_endpoints'],
    ['KV-Endpoints', 'kv_endpoints'],
    ['ipma', 'ipam'],
    ['naem', 'name'],
    ['mode', undefined],
    ['', undefined],
    ['something_else', undefined],
  ])('of %j is %j', (word, meant) => {
    expect(nearMiss(word, ['name', 'ipam', 'mtu', 'kv_endpoints'])).toBe(meant);
  });
});
