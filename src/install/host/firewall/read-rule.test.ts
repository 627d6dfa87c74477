import { describe, expect, it } from 'vitest';
import type { HostElement, HostExpression } from '../../../dataplane/packet-tables.ts';
import { findDroppers, findUnread, type ForwardFilter } from './host-filter.ts';
import { readRule } from './read-rule.ts';

const MAPS: Readonly<Record<string, readonly HostElement[]>> = {
  links: [
    { key: 'docker0', value: 'jump containers' },
    { key: '*', value: 'drop' },
  ],
};
const read = (family: string, ...expressions: readonly HostExpression[]) =>
  readRule({ expressions }, { family, elementsOf: (map) => MAPS[map] });
const hex = (text: string): string => Buffer.from(text).toString('hex');

const verdict = (value: string): HostExpression => ({ kind: 'immediate', to: 0, value });
const incoming: HostExpression = { kind: 'meta', to: 1, key: 'iifname' };
const equal = (value: string): HostExpression => ({ kind: 'cmp', from: 1, comparison: '==', value });

describe('a rule of a firewall', () => {
  it.each([
    ['the whole name of an interface', [incoming, equal(hex('eth0\0\0\0'))], ['iifname eth0']],
    ['the beginning of a name', [incoming, equal(hex('npl'))], ['iifname npl*']],
    ['another interface', [incoming, { ...equal(hex('eth0\0')), comparison: '!=' }], ['?']],
    [
      'a range by some bytes of the address',
      [{ kind: 'payload', to: 1, base: 'network', offset: 12, length: 1 }, equal('0a')],
      ['saddr 10.0.0.0/8'],
    ],
    [
      'a range by some bits',
      [
        { kind: 'payload', to: 1, base: 'network', offset: 16, length: 4 },
        { kind: 'bitwise', from: 1, to: 1, length: 4, mask: 'ffc00000', xor: '00000000' },
        equal('0a400000'),
      ],
      ['daddr 10.64.0.0/10'],
    ],
    ['states of connections', [{ kind: 'ct', to: 1, key: 'state' }, equal('00000002')], ['?']],
    ['members of a set', [incoming, { kind: 'lookup', set: 'links', from: 1 }], ['?']],
    [
      'a map from states of connections',
      [
        { kind: 'ct', to: 1, key: 'state' },
        { kind: 'lookup', set: 'm', from: 1, to: 0 },
      ],
      ['?'],
    ],
    ['a port', [{ kind: 'payload', to: 1, base: 'transport', offset: 2, length: 2 }, equal('0016')], ['?']],
  ] as const)('has a match for %s', (_what, expressions, matches) => {
    expect(read('ip', ...expressions, { kind: 'counter' }, verdict('drop'))).toEqual([{ matches, action: 'drop' }]);
  });

  it('has the family that it compares in a table of both families', () => {
    const family: HostExpression = { kind: 'meta', to: 1, key: 'nfproto' };
    const source: HostExpression = { kind: 'payload', to: 1, base: 'network', offset: 8, length: 16 };
    expect(read('inet', family, equal('0a'), source, equal(`fd${'0'.repeat(30)}`), verdict('accept'))).toEqual([
      { matches: ['family 6', 'saddr fd00::/128'], action: 'accept' },
    ]);
    expect(read('inet', source, equal('fd'), verdict('accept'))).toEqual([{ matches: ['?'], action: 'accept' }]);
  });

  it('is one for each interface of a map', () => {
    expect(read('ip', incoming, { kind: 'lookup', set: 'links', from: 1, to: 0 })).toEqual([
      { matches: ['iifname docker0'], action: '>containers' },
      { matches: [], action: 'drop' },
    ]);
  });

  it.each([
    ['an expression that nobody knows', { kind: 'telepathy', content: 'not read' }, '?telepathy'],
    ['a queue to a program', { kind: 'queue', first: 1 }, '?queue'],
    ['a target of iptables that decides', { kind: 'target', name: 'NFQUEUE' }, '?target NFQUEUE'],
    ['a queue as verdict', { kind: 'immediate', to: 0, value: 'queue' }, '?queue'],
  ] as const)('is not read to its end with %s', (_what, expression, action) => {
    const [rule] = read('ip', expression, verdict('drop'));
    expect(rule).toEqual({ matches: [], action });
    const base = { family: 'ip', table: 'wall', chain: 'forward' } as const;
    const filter: ForwardFilter = { ...base, isLegacy: false, policy: 'drop', rules: { forward: [rule!] } };
    expect(findDroppers([filter], [])).toEqual([]);
    expect(findUnread([filter], [])).toEqual([{ ...base, what: action.slice(1) }]);
    const special = { ...filter, rules: { forward: [{ ...rule!, matches: ['?'] }] } };
    expect([findDroppers([special], []).length, findUnread([special], [])]).toEqual([1, []]);
  });

  it('is not read to its end with a map of addresses, or with one of interfaces that was not read', () => {
    const source: HostExpression = { kind: 'payload', to: 1, base: 'network', offset: 12, length: 4 };
    for (const load of [incoming, source]) {
      const [rule] = read('ip', load, { kind: 'lookup', set: 'callers', from: 1, to: 0 });
      expect(rule).toEqual({ matches: [], action: '?map callers' });
    }
  });

  it.each(['LOG', 'REJECT'])('decides with the target %s of iptables what iptables does', (name) => {
    expect(read('ip', { kind: 'target', name })[0]?.action).toBe(name === 'REJECT' ? 'drop' : undefined);
  });
});
