import { describe, expect, it } from 'vitest';
import type {
  ExpiringChange,
  FilterChain,
  FilterSet,
  FilterTable,
  PolicyFilter,
} from '../../../../src/dataplane/policy-filter.ts';
import { CHANGES, LARGE_RULES, rule, tableOf } from './policy-filter-tables.ts';
import { parseAddress } from '../../../../src/net/address.ts';

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
