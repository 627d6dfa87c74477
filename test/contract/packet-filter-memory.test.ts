import { expect, it } from 'vitest';
import { packetFilterContract, tableWith } from './suites/dataplane/packet-filter.ts';
import { MemoryPacketFilter, type MemoryTables } from '../support/memory/memory-packet-filter.ts';

packetFilterContract('memory', async () => {
  const tables: MemoryTables = new Map();
  return {
    newFilter: () => new MemoryPacketFilter(tables),
    hasTable: async (name) => tables.has(name),
    removeTable: async (name) => {
      tables.delete(name);
    },
    addForeignRule: async (name, chain) => {
      tables.set(name, [...(tables.get(name) ?? []), { rule: { chain, expr: [{ counter: 'foreign' }] } }]);
    },
    hasForeignRule: async (name) => tables.get(name)?.some((object) => 'rule' in object) === true,
    [Symbol.asyncDispose]: async () => {},
  };
});

it('a packet filter in memory keeps the table when replacing it fails, and replaces it the next time', async () => {
  const tables: MemoryTables = new Map();
  const filter = new MemoryPacketFilter(tables);
  const signal = new AbortController().signal;
  await filter.replace(tableWith('192.0.2.1'), signal);
  filter.failNext();
  await expect(filter.replace(tableWith('192.0.2.2'), signal)).rejects.toMatchObject({ code: 'kernel/failed' });
  expect(tables.get('wanted')).toEqual(tableWith('192.0.2.1').objects);
  expect(await filter.replace(tableWith('192.0.2.2'), signal)).toBe('changed');
});
