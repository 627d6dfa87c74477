import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBytes, addressFromBytes, formatAddress, tryParseAddress } from './address.ts';

const v4 = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((value) => ({ family: 4 as const, value }));
const v6 = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((value) => ({ family: 6 as const, value }));
const sparseV6 = fc
  .array(fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 0xffffn })), { minLength: 8, maxLength: 8 })
  .map((groups) => ({ family: 6 as const, value: groups.reduce((value, group) => (value << 16n) | group, 0n) }));

describe('addresses', () => {
  it('decode from text and from bytes to the same address', () => {
    fc.assert(
      fc.property(fc.oneof(v4, v6, sparseV6), (address) => {
        expect(tryParseAddress(formatAddress(address))).toEqual(address);
        expect(addressFromBytes(addressBytes(address))).toEqual(address);
      }),
    );
  });

  it.each([
    '1..1.1',
    '010.0.0.1',
    '1.2.3.4 ',
    '10.0.0.256',
    '10.1',
    '0x10.1.1.1',
    '::1%eth0',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '12345::',
    '',
    '::1.2.3',
    '1.2.3.4::',
    '1:2:3:4:5:6:7::8:9',
  ])('refuses %j', (text) => {
    expect(tryParseAddress(text)).toBeUndefined();
  });

  it.each([
    ['::', '::'],
    ['2001:DB8::0:1', '2001:db8::1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
    ['::ffff:1.2.3.4', '::ffff:102:304'],
    ['fe80::', 'fe80::'],
  ])('writes %s as %s', (text, canonical) => {
    const address = tryParseAddress(text);
    expect(address === undefined ? undefined : formatAddress(address)).toBe(canonical);
  });
});
