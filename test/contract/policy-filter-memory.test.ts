import { expect, it } from 'vitest';
import { MemoryPolicyFilter, type MemoryFilterTables } from '../support/memory/memory-policy-filter.ts';
import type { FilterSet, FilterTable } from '../../src/dataplane/policy-filter.ts';
import { policyFilterContract } from './suites/dataplane/policy-filter.ts';

policyFilterContract('memory', async () => {
  const tables: MemoryFilterTables = new Map();
  return {
    newFilter: () => new MemoryPolicyFilter(tables),
    show: async (name) => {
      const table = tables.get(name);
      return table === undefined ? undefined : { chains: new Map(table.chains), sets: new Map(table.sets) };
    },
    countRuleElements: async (name, chain) =>
      (tables.get(name)?.chains.get(chain)?.rules ?? [])
        .flatMap(({ parts }) => parts)
        .reduce(
          (sum, part) => sum + (part.kind === 'ports' ? part.spans : part.kind === 'nets' ? part.nets : []).length,
          0,
        ),
    removeTable: async (name) => {
      tables.delete(name);
    },
    meddle: async (name, { chain, set, element }) => {
      const table = tables.get(name);
      if (table === undefined) throw new Error(`there is no table ${name}`);
      tables.set(name, meddledWith(table, { chain, set, element }));
    },
    [Symbol.asyncDispose]: async () => {},
  };
});

it('a policy filter in memory fails once on request, and keeps the table', async () => {
  const tables: MemoryFilterTables = new Map();
  const filter = new MemoryPolicyFilter(tables);
  const signal = new AbortController().signal;
  const table: FilterTable = { name: 'wanted', chains: new Map([['one', { rules: [] }]]), sets: new Map() };
  filter.failNext();
  await expect(filter.apply(table, { signal })).rejects.toMatchObject({ code: 'kernel/failed' });
  expect(tables.size).toBe(0);
  expect(await filter.apply(table, { signal })).toEqual({ chains: 1, sets: 0, elements: 0 });
});

function meddledWith(table: FilterTable, at: { chain: string; set: string; element: string }): FilterTable {
  const chains = new Map(table.chains);
  chains.set(at.chain, {
    rules: [...(chains.get(at.chain)?.rules ?? []), { id: 'foreign', parts: [{ kind: 'count' }] }],
  });
  chains.set('foreign', { rules: [] });
  const elements = new Set(table.sets.get(at.set)?.elements.keys());
  elements.delete(at.element);
  const set: FilterSet = { kind: 'addresses', family: 4, elements };
  return { ...table, chains, sets: new Map(table.sets).set(at.set, set) };
}
