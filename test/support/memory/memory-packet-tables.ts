import type { HostTable, PacketTables } from '../../../src/dataplane/packet-tables.ts';

/** Returns the tables and sets of a host that has only these. */
export function memoryPacketTables({
  tables = [],
  sets = [],
}: { readonly tables?: readonly HostTable[]; readonly sets?: readonly string[] } = {}): PacketTables {
  return {
    list: async () => Promise.resolve(tables),
    listBaseChains: async () => Promise.resolve(tables),
    rulesOf: async ({ family, name }, chain) =>
      Promise.resolve(
        tables
          .find((table) => table.family === family && table.name === name)
          ?.chains.find((each) => each.name === chain)?.rules ?? [],
      ),
    setsOf: async ({ family, name }) =>
      Promise.resolve(tables.find((table) => table.family === family && table.name === name)?.sets ?? []),
    elements: async () => Promise.resolve([]),
    listIpSets: async () => Promise.resolve(sets),
  };
}
