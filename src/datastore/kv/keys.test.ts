import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { NodeName } from '../../model/names.ts';
import { cidrAround, cidrContains, compareCidrs, parseCidr } from '../../net/cidr.ts';
import { cidrOfKey, type KeyRange, Keys } from './keys.ts';

const keys = new Keys();
const node = (name: string): NodeName => name as NodeName;
const isIn = (key: string, { from, to }: KeyRange): boolean => key >= from && key < to;
const cidr = fc.oneof(
  fc
    .tuple(fc.bigInt({ min: 0n, max: 2n ** 32n - 1n }), fc.integer({ min: 0, max: 32 }))
    .map(([value, bits]) => cidrAround({ family: 4, value }, bits)),
  fc
    .tuple(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), fc.integer({ min: 0, max: 128 }))
    .map(([value, bits]) => cidrAround({ family: 6, value }, bits)),
);
const name = fc.string({ minLength: 1, unit: 'grapheme' });

describe('keys', () => {
  it('lie where the layout says', () => {
    expect(keys.resource({ kind: 'IPPool', name: 'blue/green' })).toBe('/netplug/v3/resources/ippools/blue%2Fgreen');
    expect(keys.endpoint({ node: 'n1', namespace: 'ns', name: 'a b' })).toBe('/netplug/v3/endpoints/n1/ns/a%20b');
    expect(keys.block(parseCidr('10.0.0.64/26'), node('n1'))).toBe('/netplug/v3/ipam/blocks/n1/4/0a000040-026');
    expect(keys.claim(parseCidr('10.0.0.64/26'))).toBe('/netplug/v3/ipam/claims/4/0a000040-026');
    expect(keys.borrowed(node('n1'), parseCidr('::/122'))).toBe(`/netplug/v3/ipam/borrowed/n1/6/${'0'.repeat(32)}-122`);
  });

  it('of blocks without an owner differ from those of a node called "-"', () => {
    const at = parseCidr('10.0.0.0/26');
    expect(keys.block(at, undefined)).not.toBe(keys.block(at, node('-')));
    expect(isIn(keys.block(at, undefined), keys.blocksOf(node('-')))).toBe(false);
    expect(isIn(keys.block(at, node('-')), keys.blocksOf(node('-')))).toBe(true);
  });

  it('name the CIDR they were made for', () => {
    fc.assert(
      fc.property(cidr, name, (at, owner) => {
        expect(cidrOfKey(keys.claim(at))).toEqual(at);
        expect(cidrOfKey(keys.block(at, node(owner)))).toEqual(at);
      }),
    );
  });

  it('of claims are ordered as their CIDRs are', () => {
    fc.assert(
      fc.property(cidr, cidr, (a, b) => {
        const [left, right] = [keys.claim(a), keys.claim(b)];
        expect(Math.sign(compareCidrs(a, b))).toBe(left === right ? 0 : left < right ? -1 : 1);
      }),
    );
  });

  it('of claims and borrowed blocks are watched as one, and no block among them', () => {
    fc.assert(
      fc.property(cidr, name, (at, owner) => {
        const borrowed = keys.borrowed(node(owner), at);
        expect([keys.claim(at), borrowed].map((key) => isIn(key, keys.routing()))).toEqual([true, true]);
        expect([keys.borrowerIn(borrowed), keys.borrowerIn(keys.claim(at))]).toEqual([owner, undefined]);
        const others = [
          keys.block(at, node(owner)),
          keys.block(at, undefined),
          keys.resource({ kind: 'Node', name: owner }),
        ];
        expect(others.filter((key) => isIn(key, keys.routing()))).toEqual([]);
      }),
    );
  });

  it('of overlapping claims are all found', () => {
    fc.assert(
      fc.property(cidr, fc.nat(128), (inner, shorter) => {
        const outer = cidrAround(inner.base, Math.min(shorter, inner.prefixBits));
        expect(cidrContains(outer, inner)).toBe(true);
        expect(isIn(keys.claim(inner), keys.claimsInside(outer))).toBe(true);
        const found =
          isIn(keys.claim(outer), keys.claimsInside(inner)) || keys.claimsAround(inner).includes(keys.claim(outer));
        expect(found).toBe(true);
      }),
    );
  });

  it('keep every name in one segment and give it back', () => {
    fc.assert(
      fc.property(name, (text) => {
        const key = keys.resource({ kind: 'Node', name: text });
        expect(key.split('/')).toHaveLength(6);
        expect(isIn(key, keys.resources('Node'))).toBe(true);
        expect(keys.resourceAt(key, 'Node')).toEqual({ kind: 'Node', name: text });
      }),
    );
  });

  it('of resources in namespaces hold both names, and are no others', () => {
    expect(keys.resource({ kind: 'NetworkSet', name: 'a' })).toBe('/netplug/v3/resources/networksets/default/a');
    fc.assert(
      fc.property(name, name, (namespace, text) => {
        const which = { kind: 'NetworkSet', namespace, name: text } as const;
        const key = keys.resource(which);
        expect(keys.resourceAt(key, 'NetworkSet')).toEqual(which);
        expect(isIn(key, keys.resources('NetworkSet'))).toBe(true);
        const global = keys.resource({ ...which, kind: 'GlobalNetworkSet' });
        expect([isIn(global, keys.resources('NetworkSet')), isIn(key, keys.resources('GlobalNetworkSet'))]).toEqual([
          false,
          false,
        ]);
      }),
    );
  });

  it.each([
    'networksets/a',
    'networksets/a/b/c',
    'networksets/a/',
    'networksets//a',
    'networksets/a%2fb/c',
    'networksets/%/c',
  ])('such as %j are of no resource', (end) => {
    expect(keys.resourceAt(`/netplug/v3/resources/${end}`, 'NetworkSet')).toBeUndefined();
  });

  it.each(['/x/4/0a000001-026', '/x/4/0a0000-026', '/x/4/0a000000-33', '/x/4/0a000000-26', '/x/5/0a000000-026', ''])(
    'such as %j name no CIDR',
    (key) => {
      expect(cidrOfKey(key)).toBeUndefined();
    },
  );
});
