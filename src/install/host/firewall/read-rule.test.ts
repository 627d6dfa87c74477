import { describe, expect, it } from 'vitest';
import type { HostElement, HostExpression } from '../../../dataplane/packet-tables.ts';
import { type HostFilter, verdictOn } from './host-filter.ts';
import { readRule } from './read-rule.ts';
import { trafficOf } from './traffic.ts';

const MAPS: Readonly<Record<string, readonly HostElement[]>> = {
  __set0: [{ key: '179' }, { key: '4789' }],
  __set1: [{ key: '4000' }, { key: '5000', isEnd: true }, { key: '0', isEnd: true }],
  __set2: [
    { key: '192.0.2.0' },
    { key: '192.0.2.128', isEnd: true },
    { key: '198.51.100.7' },
    { key: '198.51.100.8', isEnd: true },
  ],
  __set3: [{ key: '02000000' }, { key: '04000000' }],
  __map4: [
    { key: '02000000', value: 'accept' },
    { key: '01000000', value: 'drop' },
  ],
  links: [
    { key: 'docker0', value: 'jump containers' },
    { key: '*', value: 'drop' },
  ],
};
const read = (family: string, ...expressions: readonly HostExpression[]) =>
  readRule(
    { expressions },
    { family, elementsOf: (map) => MAPS[map], isConcatenated: (map) => map.startsWith('pairs') },
  );
const hex = (text: string): string => Buffer.from(text).toString('hex');

const verdict = (value: string): HostExpression => ({ kind: 'immediate', to: 0, value });
const incoming: HostExpression = { kind: 'meta', to: 1, key: 'iifname' };
const source: HostExpression = { kind: 'payload', to: 1, base: 'network', offset: 12, length: 4 };
const port: HostExpression = { kind: 'payload', to: 1, base: 'transport', offset: 2, length: 2 };
const states: HostExpression = { kind: 'ct', to: 1, key: 'state' };
const masked = (mask: string): HostExpression => ({
  kind: 'bitwise',
  from: 1,
  to: 1,
  length: 4,
  mask,
  xor: '00000000',
});
const equal = (value: string): HostExpression => ({ kind: 'cmp', from: 1, comparison: '==', value });

describe('a rule of a firewall', () => {
  it.each([
    ['the whole name of an interface', [incoming, equal(hex('eth0\0\0\0'))], ['iifname eth0']],
    ['the beginning of a name', [incoming, equal(hex('npl'))], ['iifname npl*']],
    ['any other interface', [incoming, { ...equal(hex('eth0\0')), comparison: '!=' }], ['!iifname eth0']],
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
    ['a state', [states, equal('08000000')], ['state new']],
    [
      'one of two states',
      [states, masked('06000000'), { ...equal('00000000'), comparison: '!=' }],
      ['state established related'],
    ],
    ['none of two states', [states, masked('06000000'), equal('00000000')], ['!state established related']],
    ['states in a set', [states, { kind: 'lookup', set: '__set3', from: 1 }], ['state established related']],
    ['members of a set that is not read', [source, { kind: 'lookup', set: 'friends', from: 1 }], ['? set friends']],
    [
      'members of a set of ranges',
      [source, { kind: 'lookup', set: '__set2', from: 1 }],
      ['saddr 192.0.2.0-192.0.2.127 198.51.100.7-198.51.100.7'],
    ],
    [
      'addresses between two',
      [source, { ...equal('c0000201'), comparison: '>=' }, { ...equal('c00002ff'), comparison: '<=' }],
      ['saddr 192.0.2.1-255.255.255.255', 'saddr 0.0.0.0-192.0.2.255'],
    ],
    [
      'addresses out of a range',
      [source, { kind: 'range', from: 1, comparison: '!=', first: 'c0000201', last: 'c00002ff' }],
      ['!saddr 192.0.2.1-192.0.2.255'],
    ],
    ['a protocol', [{ kind: 'meta', to: 1, key: 'l4proto' }, equal('11')], ['protocol 17']],
    [
      'a protocol in the header',
      [{ kind: 'payload', to: 1, base: 'network', offset: 9, length: 1 }, equal('04')],
      ['protocol 4'],
    ],
    ['a port', [port, equal('12b5')], ['dport 4789']],
    ['all ports from one on', [port, { ...equal('0400'), comparison: '>=' }], ['dport 1024-65535']],
    [
      'ports out of a range',
      [port, { kind: 'range', from: 1, comparison: '!=', first: '0fa0', last: '1388' }],
      ['!dport 4000-5000'],
    ],
    ['ports of a set', [port, { kind: 'lookup', set: '__set0', from: 1 }], ['dport 179 4789']],
    [
      'ports that are in no range of a set',
      [port, { kind: 'lookup', set: '__set1', from: 1, flags: 1 }],
      ['!dport 4000-4999'],
    ],
    ['loopback by its number', [{ kind: 'meta', to: 1, key: 'iif' }, equal('01000000')], ['iif 1']],
    [
      'translated packets',
      [{ kind: 'ct', to: 1, key: 'status' }, masked('20000000'), { ...equal('00000000'), comparison: '!=' }],
      ['status any'],
    ],
    ['packets for this host', [{ kind: 'fib', to: 1, result: 3, flags: 2 }, equal('02000000')], ['daddrtype local']],
    [
      'packets for no other host',
      [{ kind: 'match', name: 'addrtype', sourceTypes: 0, destinationTypes: 0x24, flags: 0 }],
      ['daddrtype local multicast'],
    ],
    [
      'packets from this host',
      [{ kind: 'match', name: 'addrtype', sourceTypes: 4, destinationTypes: 0, flags: 0 }],
      ['?'],
    ],
    [
      'states of iptables',
      [{ kind: 'match', name: 'conntrack', flags: 1, inverted: 1, states: 0x86 }],
      ['!state established related translated'],
    ],
    ['members of a set of pairs', [source, { kind: 'lookup', set: 'pairs', from: 1 }], ['?']],
    ['a state that iptables asks for', [{ kind: 'match', name: 'conntrack' }], ['state ?']],
    ['a set of ipset', [{ kind: 'match', name: 'set' }], ['? a set of ipset']],
    ['the mark of a packet', [{ kind: 'meta', to: 1, key: 'mark' }, equal('00400000')], ['?']],
  ] as const)('has a match for %s', (_what, expressions, matches) => {
    expect(read('ip', ...expressions, { kind: 'counter' }, verdict('drop'))).toEqual([{ matches, action: 'drop' }]);
  });

  it('has the family that it compares in a table of both families', () => {
    const family: HostExpression = { kind: 'meta', to: 1, key: 'nfproto' };
    const from: HostExpression = { kind: 'payload', to: 1, base: 'network', offset: 8, length: 16 };
    expect(read('inet', family, equal('0a'), from, equal(`fd${'0'.repeat(30)}`), verdict('accept'))).toEqual([
      { matches: ['family 6', 'saddr fd00::/128'], action: 'accept' },
    ]);
    expect(read('inet', from, equal('fd'), verdict('accept'))).toEqual([{ matches: ['?'], action: 'accept' }]);
  });

  it('is one for each interface of a map', () => {
    expect(read('ip', incoming, { kind: 'lookup', set: 'links', from: 1, to: 0 })).toEqual([
      { matches: ['iifname docker0'], action: '>containers' },
      { matches: [], action: 'drop' },
    ]);
  });

  it.each([
    ['an unknown expression', { kind: 'telepathy', content: 'not read' }, '?telepathy'],
    ['a queue to a program', { kind: 'queue', first: 1 }, '?queue'],
    ['a target of iptables that decides', { kind: 'target', name: 'NFQUEUE' }, '?target NFQUEUE'],
    ['a queue as verdict', { kind: 'immediate', to: 0, value: 'queue' }, '?queue'],
  ] as const)('is not read to its end with %s', (_what, expression, action) => {
    const [rule] = read('ip', expression, verdict('drop'));
    expect(rule).toEqual({ matches: [], action });
    const filter: HostFilter = {
      family: 'ip',
      table: 'wall',
      chain: 'forward',
      hook: 'forward',
      isLegacy: false,
      policy: 'drop',
      rules: { forward: [rule!] },
    };
    const node = {
      families: new Set([4] as const),
      pools: [],
      own: new Map(),
      peers: [],
      tunnels: [],
      direct: new Set<4 | 6>(),
      bgpPort: undefined,
    };
    const special = { ...filter, rules: { forward: [{ ...rule!, matches: ['?'] }] } };
    for (const traffic of trafficOf(node))
      expect([verdictOn(filter, traffic), verdictOn(special, traffic)]).toEqual([action, 'drop']);
  });

  it('is one for each state of a map, and comes back from no chain that it goes to', () => {
    expect(read('inet', states, { kind: 'lookup', set: '__map4', from: 1, to: 0 })).toEqual([
      { matches: ['state established'], action: 'accept' },
      { matches: ['state invalid'], action: 'drop' },
    ]);
    expect(read('ip', verdict('goto end'))).toEqual([{ matches: [], action: '>>end' }]);
  });

  it('is not read to its end with a map of addresses, or with one of interfaces that was not read', () => {
    for (const load of [incoming, source]) {
      const [rule] = read('ip', load, { kind: 'lookup', set: 'callers', from: 1, to: 0 });
      expect(rule).toEqual({ matches: [], action: '?map callers' });
    }
  });

  it('is one of special packets with a map of pairs', () => {
    expect(read('ip', source, { kind: 'lookup', set: 'pairs', from: 1, to: 0 })).toEqual([
      { matches: ['?'], action: 'accept' },
    ]);
  });

  it.each(['LOG', 'REJECT'])('decides with the target %s of iptables what iptables does', (name) => {
    expect(read('ip', { kind: 'target', name })[0]?.action).toBe(name === 'REJECT' ? 'drop' : undefined);
  });
});
