import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../net/address.ts';
import { addressesInAlias, decodeAlias, encodeAlias } from './link-alias.ts';

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const bytesOf = (text: string): number => Buffer.byteLength(text);

describe('the alias of a host link', () => {
  it('contains container, interface and network, with spaces escaped', () => {
    const owner = { containerId: 'c0ffee', ifName: 'eth0', network: 'pod net' };
    expect(encodeAlias(owner)).toBe('netplug c0ffee eth0 pod%20net');
    expect(encodeAlias({ ...owner, podMark: 'd1ce' })).toBe('netplug c0ffee eth0 d1ce pod%20net');
    expect(decodeAlias('netplug c0ffee eth0 d1ce pod%20net')).toEqual({ ...owner, podMark: 'd1ce' });
  });

  it('decodes to the owner that was encoded', () => {
    fc.assert(
      fc.property(word, word, fc.string({ unit: 'grapheme', maxLength: 12 }), (containerId, ifName, network) => {
        fc.pre(bytesOf(containerId + ifName + network) < 70);
        expect(decodeAlias(encodeAlias({ containerId, ifName, network }))).toEqual({ containerId, ifName, network });
      }),
    );
  });

  it('truncates a long network name between characters, and nothing else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 200, maxLength: 400 }), (network) => {
        const containerId = 'a'.repeat(64);
        const alias = encodeAlias({ containerId, ifName: 'eth0', network });
        const owner = decodeAlias(alias);
        expect(bytesOf(alias)).toBeLessThanOrEqual(255);
        expect(owner).toMatchObject({ containerId, ifName: 'eth0' });
        expect(network.startsWith(owner?.network ?? '-')).toBe(true);
      }),
    );
  });

  it('contains addresses where they fit, without which the owner is the same', () => {
    const addresses = ['10.65.0.1', 'fd00:65::1'].map(parseAddress);
    const owner = { containerId: 'c0ffee', ifName: '@if', network: '@net', podMark: 'd1ce' };
    for (const each of [owner, { containerId: 'c0ffee', ifName: '@if', network: '@net' }]) {
      const alias = encodeAlias(each, addresses);
      expect(alias).toContain(' @10.65.0.1,fd00:65::1 @net');
      expect(decodeAlias(alias)).toEqual(each);
      expect(addressesInAlias(alias)).toEqual(addresses);
      expect(addressesInAlias(encodeAlias(each))).toEqual([]);
    }
    const long = { ...owner, containerId: 'a'.repeat(220) };
    expect(encodeAlias(long, addresses)).toBe(encodeAlias(long));
  });

  it('refuses a container id that does not fit', () => {
    const owner = { containerId: 'a'.repeat(250), ifName: 'eth0', network: 'n' };
    expect(() => encodeAlias(owner)).toThrow(expect.objectContaining({ code: 'kernel/failed' }));
  });

  it.each(['', 'netplug', 'netplug a', 'netplug a b', 'netplug a b c d e', 'other a b c', 'NETPLUG a b c'])(
    'has no owner when it is %j',
    (alias) => {
      expect(decodeAlias(alias)).toBeUndefined();
    },
  );
});
