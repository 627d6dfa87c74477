// Tables for the contract of policy filters.
import type {
  FilterAction,
  FilterChain,
  FilterMatch,
  FilterSet,
  FilterTable,
  TableRule,
} from '../../../../src/dataplane/policy-filter.ts';
import { parseCidr } from '../../../../src/net/cidr.ts';

export const LARGE_RULES: readonly { readonly title: string; readonly match: FilterMatch }[] = [
  {
    title: 'ports',
    match: {
      kind: 'ports',
      side: 'destination',
      spans: Array.from({ length: 5000 }, (_, index) => ({ first: 2 * index + 1, last: 2 * index + 1 })),
    },
  },
  {
    title: 'excepted IPv4 CIDRs',
    match: {
      kind: 'nets',
      side: 'source',
      family: 4,
      nets: Array.from({ length: 5000 }, (_, index) =>
        parseCidr(`10.${String(index >> 7)}.${String((2 * index) & 255)}.0/24`),
      ),
      isNegated: true,
    },
  },
  {
    title: 'excepted IPv6 CIDRs',
    match: {
      kind: 'nets',
      side: 'source',
      family: 6,
      nets: Array.from({ length: 5000 }, (_, index) => parseCidr(`fd00:${(2 * index).toString(16)}::/32`)),
      isNegated: true,
    },
  },
];

export function rule(id: string, ...parts: readonly (FilterMatch | FilterAction)[]): TableRule {
  return { id, parts };
}

/** Every kind of match and action. */
const EVERYTHING: readonly TableRule[] = [
  rule('state', { kind: 'state', states: ['established', 'related'] }, { kind: 'accept' }),
  rule('family', { kind: 'family', family: 6 }, { kind: 'protocol', protocols: [6, 17] }, { kind: 'count' }),
  rule('not-protocol', { kind: 'protocol', protocols: [132], isNegated: true }, { kind: 'count' }),
  rule('net', { kind: 'nets', side: 'source', family: 4, nets: [parseCidr('10.64.0.0/12')] }, { kind: 'count' }),
  rule(
    'nets',
    { kind: 'nets', side: 'source', family: 6, nets: ['fd00::/8', '2001:db8::1/128'].map(parseCidr), isNegated: true },
    { kind: 'count' },
  ),
  rule(
    'whole-nets',
    { kind: 'nets', side: 'destination', family: 4, nets: ['0.0.0.0/1', '128.0.0.0/1'].map(parseCidr) },
    { kind: 'count' },
  ),
  rule('member', { kind: 'member', side: 'source', family: 4, set: 'addresses' }, { kind: 'count' }),
  rule('cidr', { kind: 'member', side: 'source', family: 6, set: 'nets', isNegated: true }, { kind: 'count' }),
  rule('service', { kind: 'service', side: 'destination', family: 6, set: 'services' }, { kind: 'count' }),
  rule(
    'ports',
    { kind: 'protocol', protocols: [6] },
    { kind: 'ports', side: 'destination', spans: [{ first: 80, last: 80 }] },
    { kind: 'ports', side: 'source', spans: [{ first: 1024, last: 65535 }], isNegated: true },
    {
      kind: 'ports',
      side: 'destination',
      spans: [
        { first: 1, last: 9 },
        { first: 80, last: 80 },
        { first: 65000, last: 65535 },
      ],
    },
    { kind: 'count' },
  ),
  rule(
    'icmp',
    { kind: 'protocol', protocols: [58] },
    { kind: 'icmp', types: [133, 134, 135, 136] },
    { kind: 'icmp code', type: 1, code: 4, isNegated: true },
    { kind: 'count' },
  ),
  rule('logged', { kind: 'limit', perSecond: 10, burst: 5 }, { kind: 'log', prefix: 'netplug-packet: ' }),
  rule(
    'limited',
    { kind: 'limit each', direction: 'out', set: 'limits', perSecond: 10, burst: 20 },
    { kind: 'report', group: 4786, prefix: 'limited' },
  ),
  rule('reported', { kind: 'report', group: 4786, prefix: 'reported' }),
  rule('opening', { kind: 'protocol', protocols: [6] }, { kind: 'tcp opening', isNegated: true }, { kind: 'count' }),
  rule(
    'flow',
    { kind: 'protocol', protocols: [6] },
    { kind: 'flow', family: 4, set: 'flows-v4' },
    { kind: 'flow', family: 4, set: 'flows-v4' },
    { kind: 'count' },
  ),
  rule('flow6', { kind: 'protocol', protocols: [6] }, { kind: 'flow', family: 6, set: 'flows-v6' }, { kind: 'count' }),
  rule('cut', { kind: 'member', side: 'source', family: 6, set: 'cut-v6' }, { kind: 'count' }),
  rule('to-host', { kind: 'address type', side: 'destination', type: 'local' }, { kind: 'return' }),
  rule(
    'own-of-another',
    { kind: 'address type', side: 'source', type: 'broadcast', isOfLeaving: true, isNegated: true },
    { kind: 'count' },
  ),
  rule('foreign-source', { kind: 'foreign source' }, { kind: 'count' }),
  rule(
    'source-route',
    { kind: 'source route', name: 'eth0' },
    { kind: 'source route', name: 'npl*' },
    { kind: 'count' },
  ),
  rule(
    'payload',
    { kind: 'protocol', protocols: [17] },
    { kind: 'payload', offset: 12, bytes: [0, 16, 1], isNegated: true },
    { kind: 'count' },
  ),
  rule(
    'other',
    { kind: 'interface', direction: 'in', name: 'eth0', isNegated: true },
    { kind: 'jump', chain: 'shared' },
  ),
  rule('rest', { kind: 'goto', chain: 'shared' }),
];

const TO_POD = rule('to-pod', {
  kind: 'translate',
  side: 'destination',
  family: 4,
  by: 'destination',
  map: 'floating',
});
const FROM_POD = [
  rule('itself', { kind: 'translate', side: 'source', family: 6, by: 'both', map: 'itself' }),
  rule('outside', { kind: 'member', side: 'source', family: 4, set: 'addresses' }, { kind: 'masquerade' }),
];

interface TableParts {
  readonly chains?: Readonly<Record<string, FilterChain>>;
  readonly addresses?: readonly string[];
  readonly sets?: Readonly<Record<string, FilterSet>>;
}

export function tableOf({
  chains = {},
  addresses = ['10.65.0.1', '10.65.0.2'],
  sets = {},
}: TableParts = {}): FilterTable {
  return {
    name: 'wanted',
    chains: new Map<string, FilterChain>([
      [
        'forward',
        {
          hook: { type: 'filter', hook: 'forward', priority: 0 },
          rules: [
            rule('dispatch', { kind: 'dispatch', direction: 'out', map: 'to-pods' }),
            rule('unknown', { kind: 'interface', direction: 'out', name: 'npl*' }, { kind: 'count' }, { kind: 'drop' }),
          ],
        },
      ],
      ['arriving', { hook: { type: 'nat', hook: 'prerouting', priority: -100 }, rules: [TO_POD] }],
      ['leaving', { hook: { type: 'nat', hook: 'postrouting', priority: 100 }, rules: FROM_POD }],
      ['in-a', { rules: EVERYTHING }],
      ['shared', { rules: [rule('end', { kind: 'count' }, { kind: 'drop' })] }],
      ...Object.entries(chains),
    ]),
    sets: new Map<string, FilterSet>([
      ['to-pods', { kind: 'interfaces', elements: new Map([['npla', 'in-a']]) }],
      ['addresses', { kind: 'addresses', family: 4, elements: new Set(addresses) }],
      ['flows-v4', { kind: 'flows', family: 4, elements: new Set() }],
      ['flows-v6', { kind: 'flows', family: 6, elements: new Set() }],
      ['floating', { kind: 'translations', family: 4, by: 'one', elements: new Map([['192.0.2.1', '10.65.0.1']]) }],
      [
        'itself',
        { kind: 'translations', family: 6, by: 'both', elements: new Map([['fd00:65::1 fd00:65::1', '2001:db8::1']]) },
      ],
      ['cut-v6', { kind: 'cut addresses', family: 6, elements: new Set() }],
      ['limits', { kind: 'limits', elements: new Set() }],
      ['nets', { kind: 'nets', family: 6, elements: new Set(['fd00:65::/32', 'fd00:66::/32', 'fd00:70::1/128']) }],
      ['services', { kind: 'services', family: 6, elements: new Set(['fd00:65::1 6 80', 'fd00:65::1 17 53']) }],
      ...Object.entries(sets),
    ]),
  };
}

export const CHANGES: readonly { readonly title: string; readonly table: FilterTable }[] = [
  { title: 'elements', table: tableOf({ addresses: ['10.65.0.2', '10.65.1.0'] }) },
  {
    title: 'touching ranges and the greatest one',
    table: tableOf({
      sets: {
        nets: { kind: 'nets', family: 6, elements: new Set(['fd00:65::/33', 'fd00:65:8000::/33', 'ff00::/8']) },
      },
    }),
  },
  {
    title: 'another chain for an interface',
    table: tableOf({
      sets: {
        'to-pods': {
          kind: 'interfaces',
          elements: new Map([
            ['npla', 'in-b'],
            ['nplb', 'in-b'],
          ]),
        },
      },
      chains: { 'in-b': { rules: [rule('b', { kind: 'accept' })] } },
    }),
  },
  {
    title: 'other translations',
    table: tableOf({
      sets: {
        floating: {
          kind: 'translations',
          family: 4,
          by: 'one',
          elements: new Map([
            ['192.0.2.1', '10.65.0.2'],
            ['192.0.2.2', '10.65.0.1'],
          ]),
        },
        itself: { kind: 'translations', family: 6, by: 'both', elements: new Map() },
      },
    }),
  },
  {
    title: 'other rules in a chain, one of them moved',
    table: tableOf({ chains: { 'in-a': { rules: EVERYTHING.toReversed() } } }),
  },
  {
    title: 'new sets and services',
    table: tableOf({
      chains: {
        shared: {
          rules: [rule('new', { kind: 'service', side: 'source', family: 4, set: 'new' }, { kind: 'accept' })],
        },
      },
      sets: {
        new: { kind: 'services', family: 4, elements: new Set(['10.65.0.1 132 9']) },
        services: { kind: 'services', family: 6, elements: new Set() },
      },
    }),
  },
  {
    title: 'more elements than fit into one message',
    table: tableOf({
      addresses: Array.from({ length: 10_000 }, (_, index) => `10.70.${String(index >> 8)}.${String(index & 255)}`),
    }),
  },
];
