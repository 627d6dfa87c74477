import { describe, expect, it } from 'vitest';
import type {
  ExpiringChange,
  FilterAction,
  FilterChain,
  FilterMatch,
  FilterSet,
  FilterTable,
  PolicyFilter,
  TableRule,
} from '../../../../src/dataplane/policy-filter.ts';
import { parseAddress } from '../../../../src/net/address.ts';
import { parseCidr } from '../../../../src/net/cidr.ts';

/** A fresh host without tables. */
export interface PolicyFilterFixture extends AsyncDisposable {
  /** A filter that has not read anything yet. */
  newFilter(): PolicyFilter;
  /** What the host shows of the table, in any form that is equal for equal tables; undefined without a table. */
  show(table: string): Promise<unknown>;
  /** Counts the ports and CIDRs in the rules of the chain. */
  countRuleElements(table: string, chain: string): Promise<number>;
  /** Removes the table behind the filter's back. */
  removeTable(table: string): Promise<void>;
  /** Adds a rule to the chain, removes an element of the set and adds a chain. */
  meddle(table: string, options: { chain: string; set: string; element: string }): Promise<void>;
}

const NONE = { chains: 0, sets: 0, elements: 0 };
const signal = new AbortController().signal;

/** What every PolicyFilter does. */
export function policyFilterContract(name: string, makeFixture: () => Promise<PolicyFilterFixture>): void {
  describe(`policy filter contract (${name})`, () => {
    it('creates a table, and changes nothing while the desired state stays', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      expect(await host.show('wanted')).toBeUndefined();
      expect((await filter.apply(tableOf(), { signal })).chains).toBeGreaterThan(0);
      const shown = await host.show('wanted');
      expect(shown).toBeDefined();
      expect(await filter.apply(tableOf(), { signal })).toEqual(NONE);
      expect(await filter.apply(tableOf(), { signal, reread: true })).toEqual(NONE);
      expect(await host.newFilter().apply(tableOf(), { signal })).toEqual(NONE);
      expect(await host.show('wanted')).toEqual(shown);
    });

    it('makes a table only while there is none, also when two filters do so at once', async () => {
      await using host = await makeFixture();
      const other = tableOf({ addresses: ['10.65.0.9'] });
      const filters = Array.from({ length: 8 }, () => host.newFilter());
      const made = await Promise.all(filters.map(async (filter) => filter.create(tableOf(), signal)));
      expect(made.filter(Boolean)).toHaveLength(1);
      const shown = await host.show('wanted');
      expect(await host.newFilter().create(other, signal)).toBe(false);
      expect(await host.show('wanted')).toEqual(shown);
      await using fresh = await makeFixture();
      await fresh.newFilter().apply(tableOf(), { signal });
      expect(shown).toEqual(await fresh.show('wanted'));
    });

    it('adds elements to the sets that a table has, until the next change', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      const more = (name: string, element: string): ReadonlyMap<string, FilterSet> =>
        new Map([[name, { kind: 'addresses', family: 4, elements: new Set([element]) }]]);
      await filter.extend('wanted', more('addresses', '10.65.0.9'), signal);
      expect(await host.show('wanted')).toBeUndefined();
      await filter.apply(tableOf(), { signal });
      const shown = await host.show('wanted');
      await host.newFilter().extend('wanted', more('unknown', '10.65.0.9'), signal);
      expect(await host.show('wanted')).toEqual(shown);
      for (const element of ['10.65.0.1', '10.65.0.9'])
        await filter.extend('wanted', more('addresses', element), signal);
      await using extended = await makeFixture();
      await extended.newFilter().apply(tableOf({ addresses: ['10.65.0.1', '10.65.0.2', '10.65.0.9'] }), { signal });
      expect(await host.show('wanted')).toEqual(await extended.show('wanted'));
      expect(await filter.apply(tableOf(), { signal })).toEqual({ chains: 0, sets: 0, elements: 1 });
      expect(await host.show('wanted')).toEqual(shown);
    });

    it('takes interfaces and addresses out of the sets of a table, and does so again', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      const left = { interfaces: ['npla', 'nplb'], addresses: ['10.65.0.1', 'fd00:65::1'].map(parseAddress) };
      await filter.withdraw('wanted', left, signal);
      expect(await host.show('wanted')).toBeUndefined();
      await filter.apply(tableOf(), { signal });
      const shown = await host.show('wanted');
      await host.newFilter().withdraw('wanted', { interfaces: [], addresses: [parseAddress('10.65.0.9')] }, signal);
      expect(await host.show('wanted')).toEqual(shown);
      for (let time = 0; time < 2; time += 1) await host.newFilter().withdraw('wanted', left, signal);
      await using other = await makeFixture();
      const sets: Readonly<Record<string, FilterSet>> = {
        'to-pods': { kind: 'interfaces', elements: new Map() },
        services: { kind: 'services', family: 6, elements: new Set() },
      };
      await other.newFilter().apply(tableOf({ addresses: ['10.65.0.2'], sets }), { signal });
      expect(await host.show('wanted')).toEqual(await other.show('wanted'));
      expect((await filter.apply(tableOf(), { signal, reread: true })).elements).toBeGreaterThan(0);
      expect(await host.show('wanted')).toEqual(shown);
    });

    it('leaves the flows that were added to a set where they are', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      const empty = await host.show('wanted');
      const added = new Map([
        ['flows-v4', new Map([['10.65.0.1 10.65.0.2 40000 80', 100_000]])],
        ['flows-v6', new Map([['fd00:65::1 fd00:65::2 40000 80', 100_000]])],
        ['cut-v6', new Map([['fd00:65::1', 100_000]])],
      ]);
      await host.newFilter().renew('wanted', { removed: new Map(), added }, signal);
      expect(await host.show('wanted')).not.toEqual(empty);
      expect(await filter.apply(tableOf(), { signal })).toEqual(NONE);
      expect(await host.newFilter().apply(tableOf(), { signal, reread: true })).toEqual(NONE);
      expect(await host.show('wanted')).not.toEqual(empty);
    });

    it('changes what expires in a table, all or nothing, and lists it', async () => {
      await using host = await makeFixture();
      const [first, second] = ['10.65.0.1 10.65.0.2 40000 80', '10.65.0.1 10.65.0.2 40001 80'];
      const change = (added: readonly string[], removed: readonly string[] = []): ExpiringChange => ({
        added: new Map([['flows-v4', new Map(added.map((text) => [text, 100_000]))]]),
        removed: new Map([['flows-v4', new Set(removed)]]),
      });
      const listed = async (): Promise<readonly string[]> =>
        [...((await host.newFilter().expiring('wanted', signal)).get('flows-v4') ?? [])].map(([text]) => text);
      await host.newFilter().renew('wanted', change([first]), signal);
      expect(await listed()).toEqual([]);
      await host.newFilter().apply(tableOf(), { signal });
      await host.newFilter().renew('wanted', change([first]), signal);
      expect(await listed()).toEqual([first]);
      await host.newFilter().renew('wanted', change([first, second]), signal);
      expect(new Set(await listed())).toEqual(new Set([first, second]));
      await host.newFilter().renew('wanted', change([second], [first]), signal);
      expect(await listed()).toEqual([second]);
      await expect(
        host.newFilter().renew('wanted', change([first], ['10.65.0.9 10.65.0.2 1 1']), signal),
      ).rejects.toThrow('Cannot change what expires');
      expect(await listed()).toEqual([second]);
    });

    it('tries what the kernel can log, and leaves nothing', async () => {
      await using host = await makeFixture();
      expect(await host.newFilter().missingLogs(signal)).toEqual(new Set());
      expect(await host.show('netplug-trial')).toBeUndefined();
    });

    it('lists the ids of the rules of a table, none without the table', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      expect(await filter.ruleIds('wanted', signal)).toEqual(new Set());
      await filter.apply(tableOf(), { signal });
      const ids = [...tableOf().chains.values()].flatMap(({ rules }) => rules.map(({ id }) => id));
      expect(await host.newFilter().ruleIds('wanted', signal)).toEqual(new Set(ids));
    });

    it.each(CHANGES)('reaches the same state as a fresh table: $title', async ({ table }) => {
      await using host = await makeFixture();
      await using fresh = await makeFixture();
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      expect(await filter.apply(table, { signal })).not.toEqual(NONE);
      await fresh.newFilter().apply(table, { signal });
      expect(await host.show('wanted')).toEqual(await fresh.show('wanted'));
      expect(await filter.apply(table, { signal, reread: true })).toEqual(NONE);
      await filter.apply(tableOf(), { signal });
      await fresh.newFilter().apply(tableOf(), { signal });
      expect(await host.show('wanted')).toEqual(await fresh.show('wanted'));
    });

    it('gives each chain its rules when the same objects go from one to another and come back', async () => {
      await using host = await makeFixture();
      await using fresh = await makeFixture();
      const filter = host.newFilter();
      const { rules } = [...tableOf().chains.values()].find((chain) => chain.hook === undefined) ?? { rules: [] };
      expect(rules.length).toBeGreaterThan(0);
      const withChains = (...names: readonly string[]): FilterTable => ({
        ...tableOf(),
        chains: new Map([...tableOf().chains, ...names.map((each): [string, FilterChain] => [each, { rules }])]),
      });
      for (const table of [withChains('one'), withChains('one', 'other'), withChains('other'), withChains('one')]) {
        await filter.apply(table, { signal });
        await fresh.newFilter().remove('wanted', signal);
        await fresh.newFilter().apply(structuredClone(table), { signal });
        expect(await host.show('wanted')).toEqual(await fresh.show('wanted'));
      }
    });

    it('changes only the elements that differ', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      const table = tableOf({ addresses: ['10.65.0.1', '10.65.0.3'] });
      expect(await filter.apply(table, { signal })).toEqual({ chains: 0, sets: 0, elements: 2 });
    });

    it('restores a table that another program removed or changed', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      const shown = await host.show('wanted');
      await host.removeTable('wanted');
      await filter.apply(tableOf(), { signal, reread: true });
      expect(await host.show('wanted')).toEqual(shown);
      await host.meddle('wanted', { chain: 'in-a', set: 'addresses', element: '10.65.0.1' });
      expect(await host.show('wanted')).not.toEqual(shown);
      await filter.apply(tableOf(), { signal, reread: true });
      expect(await host.show('wanted')).toEqual(shown);
    });

    it('recovers within one call when a change fails because another program removed the table', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      await host.removeTable('wanted');
      const table = tableOf({ addresses: ['10.65.0.9'] });
      await filter.apply(table, { signal });
      await using fresh = await makeFixture();
      await fresh.newFilter().apply(table, { signal });
      expect(await host.show('wanted')).toEqual(await fresh.show('wanted'));
    });

    it.each(LARGE_RULES)('writes a rule with 5 000 $title', async ({ match }) => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      const large = rule('large', { kind: 'protocol', protocols: [6] }, match, { kind: 'count' });
      const table = tableOf({ chains: { shared: { rules: [large] } } });
      await filter.apply(table, { signal });
      expect(await filter.apply(table, { signal, reread: true })).toEqual(NONE);
      expect(await host.countRuleElements('wanted', 'shared')).toBe(5000);
    });

    it('removes a table, also one of an earlier filter, and succeeds when there is none', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.remove('wanted', signal);
      await host.newFilter().apply(tableOf(), { signal });
      expect(await filter.has('wanted', signal)).toBe(true);
      await filter.remove('wanted', signal);
      expect(await filter.has('wanted', signal)).toBe(false);
      expect(await host.show('wanted')).toBeUndefined();
      await filter.apply(tableOf(), { signal });
      expect(await host.show('wanted')).toBeDefined();
    });

    it('touches no other table', async () => {
      await using host = await makeFixture();
      await host.newFilter().apply({ ...tableOf(), name: 'other' }, { signal });
      await host.meddle('other', { chain: 'in-a', set: 'addresses', element: '10.65.0.1' });
      const shown = await host.show('other');
      const filter = host.newFilter();
      await filter.apply(tableOf(), { signal });
      await filter.remove('wanted', signal);
      expect(await host.show('other')).toEqual(shown);
    });

    it('does nothing once its signal is aborted', async () => {
      await using host = await makeFixture();
      const reason = new Error('no longer wanted');
      await expect(host.newFilter().apply(tableOf(), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      expect(await host.show('wanted')).toBeUndefined();
    });
  });
}

const LARGE_RULES: readonly { readonly title: string; readonly match: FilterMatch }[] = [
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

function rule(id: string, ...parts: readonly (FilterMatch | FilterAction)[]): TableRule {
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

function tableOf({ chains = {}, addresses = ['10.65.0.1', '10.65.0.2'], sets = {} }: TableParts = {}): FilterTable {
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

const CHANGES: readonly { readonly title: string; readonly table: FilterTable }[] = [
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
