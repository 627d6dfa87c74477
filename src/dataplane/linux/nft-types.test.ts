import { describe, expect, it } from 'vitest';
import type { FilterSet } from '../policy-filter.ts';
import { decodeKey, encodeKey, keyLength, keyType } from './nft-types.ts';

const none = { elements: new Set<string>() };
const pairs = { elements: new Map<string, string>() };

describe('the key of a set', () => {
  it.each<readonly [FilterSet, string, string]>([
    [{ kind: 'addresses', family: 4, ...none }, '10.65.0.1', '0a410001'],
    [{ kind: 'addresses', family: 6, ...none }, 'fd00::1', 'fd000000000000000000000000000001'],
    [{ kind: 'services', family: 4, ...none }, '10.65.0.1 6 80', '0a4100010600000000500000'],
    [{ kind: 'flows', family: 4, ...none }, '10.65.0.1 10.65.0.2 40000 80', '0a4100010a4100029c40000000500000'],
    [{ kind: 'translations', family: 4, by: 'both', ...pairs }, '10.65.0.1 10.65.0.2', '0a4100010a410002'],
    [{ kind: 'interfaces', ...pairs }, 'npl1', '6e706c31000000000000000000000000'],
  ])('of $kind is encoded and decoded: %s', (set, text, digits) => {
    const type = keyType(set);
    const key = encodeKey(type, text);
    expect([key.toString('hex'), key.length, decodeKey(type, key)]).toEqual([digits, keyLength(type), text]);
  });

  it.each([
    ['of a type that is not known', 99, '0a41'],
    ['that is too short for its type', 7, '0a41'],
    ['of a concatenation with a part that is not known', 7 * 64 + 63, '0a4100010001'],
    ['of no type', 0, '01'],
  ])('is shown in hexadecimal digits: %s', (_what, type, digits) => {
    expect(decodeKey(type, Buffer.from(digits, 'hex'))).toBe(digits);
  });
});
