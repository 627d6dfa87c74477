import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../../net/address.ts';
import { cidrAround, parseCidr } from '../../net/cidr.ts';
import { decodeAddress, addAddress } from './address-messages.ts';
import { addRoute, decodeRoute } from './route-messages.ts';

const address = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }).map((value) => ({ family: 4 as const, value })),
  fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }).map((value) => ({ family: 6 as const, value })),
);

describe('route messages', () => {
  it('decode to the route that was encoded', () => {
    fc.assert(
      fc.property(address, fc.nat(32), fc.integer({ min: 1, max: 2 ** 31 - 1 }), (base, prefixBits, deviceIndex) => {
        const destination = cidrAround(base, prefixBits);
        const read = decodeRoute(addRoute({ destination, deviceIndex, gateway: base }).body);
        expect(read).toMatchObject({ destination, deviceIndex, gateway: base, type: 'unicast', table: 254 });
      }),
    );
  });

  it('have the main table, link scope and type unicast without a gateway', () => {
    const { body } = addRoute({ destination: parseCidr('10.0.0.1/32'), deviceIndex: 5, gateway: undefined });
    expect(body.toString('hex')).toBe(['02200000fe03fd0100000000', '080001000a000001', '0800040005000000'].join(''));
  });
});

describe('address messages', () => {
  it('decode to a global address with full prefix length', () => {
    fc.assert(
      fc.property(address, (given) => {
        fc.pre(given.family === 4 || given.value >> 118n !== 0x3fan);
        const read = decodeAddress(addAddress(3, given).body);
        const prefixBits = given.family === 4 ? 32 : 128;
        expect(read).toEqual({ address: given, prefixBits, isGlobal: true, isLasting: true, deviceIndex: 3 });
      }),
    );
  });

  it('disable duplicate detection, and give a link-local address link scope', () => {
    const { body } = addAddress(3, parseAddress('fe80::1'), 64);
    expect(body.subarray(0, 8).toString('hex')).toBe('0a4000fd03000000');
    expect(body.subarray(-8).toString('hex')).toBe('0800080002000000');
  });
});
