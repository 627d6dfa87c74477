import { describe, expect, it } from 'vitest';
import { nodeName, nodeOf } from '../../test/support/fixtures.ts';
import type { Node } from '../model/node.ts';
import { parseAddress } from '../net/address.ts';
import { isOutdated, judgeClaim } from './judge-claim.ts';

describe('an address that other nodes publish', () => {
  it.each<[others: string[], isSettled: boolean, verdict: string]>([
    [[], false, 'free'],
    [['b'], false, 'withheld'],
    [['b'], true, 'kept'],
  ])('by %j, settled %s, is %s', (others, isSettled, verdict) => {
    expect(judgeClaim({ others: others.map((name) => nodeName(name)), isSettled })).toBe(verdict);
  });

  it.each<[what: string, own: string[], other: string[] | undefined, outdated: boolean]>([
    ['whose Node is gone', [], undefined, true],
    ['whose Node has another InternalIP, while this one has it', ['192.0.2.1'], ['192.0.2.2'], true],
    ['whose Node has another InternalIP, on another interface of both', ['198.51.100.1'], ['198.51.100.2'], false],
    ['whose Node has it as well', ['192.0.2.1'], ['192.0.2.1'], false],
    ['whose Node has no InternalIP', ['192.0.2.1'], [], false],
    ['whose Node has an InternalIP of the other family', ['192.0.2.1'], ['2001:db8::2'], false],
  ])('and that a node has no more: one %s is %s', (_what, own, other, outdated) => {
    const nodes = { own: nodeWith(own), other: other === undefined ? undefined : nodeWith(other) };
    expect(isOutdated(parseAddress('192.0.2.1'), nodes)).toBe(outdated);
  });
});

function nodeWith(internalIps: readonly string[]): Node {
  const addresses = internalIps.map((address) => ({ address, type: 'InternalIP' as const }));
  return { ...nodeOf('a'), spec: { addresses } };
}
