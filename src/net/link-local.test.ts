import { describe, expect, it } from 'vitest';
import { formatAddress } from './address.ts';
import { linkLocalOf } from './link-local.ts';

describe('the link-local address of a MAC', () => {
  it.each([
    ['0a:00:00:00:06:02', 'fe80::800:ff:fe00:602'],
    ['34:56:78:9a:bc:de', 'fe80::3656:78ff:fe9a:bcde'],
  ])('%s is %s', (mac, address) => {
    expect(formatAddress(linkLocalOf(mac))).toBe(address);
  });
});
