import { array, assert, bigInt, constantFrom, integer, property, record } from 'fast-check';
import { expect, it } from 'vitest';
import type { Address } from './address.ts';
import {
  type Cidr,
  cidrAround,
  cidrContains,
  cidrsOverlap,
  formatCidr,
  outermostCidrs,
  parseCidr,
  rangesOverlap,
} from './cidr.ts';

it.each<[string, string, boolean]>([
  ['10.0.0.0/8', '10.1.2.3', true],
  ['10.1.2.3', '10.0.0.0/8', true],
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['fd00::/48', 'fd00::1', true],
  ['0.0.0.0/0', 'fd00::1', false],
  ['10.0.0.1', '10.0.0.1', true],
  ['10.0.0.0/8', 'node-a', false],
])('rangesOverlap of %s and %s returns %s', (a, b, isOverlap) => {
  expect(rangesOverlap(a, b)).toBe(isOverlap);
});

it('returns the outermost CIDRs of both families, each once, in order', () => {
  const cidrs = ['10.0.1.0/24', 'fd00::/64', '10.0.0.0/16', '10.0.0.0/16', '10.1.0.0/32', 'fd00::/48', '0.0.0.0/32'];
  const expected = ['0.0.0.0/32', '10.0.0.0/16', '10.1.0.0/32', 'fd00::/48'];
  expect(outermostCidrs(cidrs.map(parseCidr)).map(formatCidr)).toEqual(expected);
});

it('returns outermost CIDRs that do not overlap and contain all others', () => {
  const address = record({ family: constantFrom(4 as const), value: bigInt(0n, 0xffff_ffffn) });
  const cidr = record({ address, bits: integer({ min: 0, max: 32 }) }).map(
    ({ address: at, bits }: { address: Address; bits: number }): Cidr => cidrAround(at, bits),
  );
  assert(
    property(array(cidr, { maxLength: 12 }), (cidrs) => {
      const kept = outermostCidrs(cidrs);
      const overlaps = kept.flatMap((a, index) => kept.slice(index + 1).filter((b) => cidrsOverlap(a, b)));
      expect(overlaps).toEqual([]);
      expect(cidrs.filter((each) => !kept.some((outer) => cidrContains(outer, each)))).toEqual([]);
    }),
  );
});
