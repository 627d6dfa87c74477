import { describe, expect, it } from 'vitest';
import { nodeOf } from '../../test/support/fixtures.ts';
import type { Node } from '../model/node.ts';
import { parseAddress } from '../net/address.ts';
import { judgeClaim, weighClaim } from './judge-claim.ts';

describe('an address that other nodes publish', () => {
  it.each<[others: ('equal' | 'better')[], isSettled: boolean, verdict: string]>([
    [[], false, 'free'],
    [['equal'], false, 'withheld'],
    [['equal'], true, 'kept'],
    [['equal', 'better'], true, 'withheld'],
  ])('by %j claims, settled %s, is %s', (others, isSettled, verdict) => {
    expect(judgeClaim({ others, isSettled })).toBe(verdict);
  });

  it.each<[what: string, own: string[], other: string[] | undefined, weight: string, mirrored: string]>([
    ['a node whose Node is gone', [], undefined, 'outdated', 'equal'],
    ['one with another InternalIP, while this one has it', ['192.0.2.1'], ['192.0.2.2'], 'outdated', 'better'],
    ['one with another InternalIP, on another interface of both', ['198.51.100.1'], ['198.51.100.2'], 'equal', 'equal'],
    ['one that has it as well', ['192.0.2.1'], ['192.0.2.1'], 'equal', 'equal'],
    ['one without an InternalIP', ['192.0.2.1'], [], 'equal', 'equal'],
    ['one with an InternalIP of the other family', ['192.0.2.1'], ['2001:db8::2'], 'equal', 'equal'],
  ])('is weighed: the claim of %s', (_what, own, other, weight, mirrored) => {
    const address = parseAddress('192.0.2.1');
    const nodes = { own: nodeWith(own), other: other === undefined ? undefined : nodeWith(other) };
    expect(weighClaim(address, nodes)).toBe(weight);
    expect(weighClaim(address, { own: nodes.other, other: nodes.own })).toBe(mirrored);
  });
});

function nodeWith(internalIps: readonly string[]): Node {
  const addresses = internalIps.map((address) => ({ address, type: 'InternalIP' as const }));
  return { ...nodeOf('a'), spec: { addresses } };
}
