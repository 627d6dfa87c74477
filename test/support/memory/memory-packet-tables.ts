import type { HostTable, PacketTables } from '../../../src/dataplane/packet-tables.ts';

/** Returns the tables and sets of a host that has only these. */
export function memoryPacketTables({
  tables = [],
  sets = [],
}: { readonly tables?: readonly HostTable[]; readonly sets?: readonly string[] } = {}): PacketTables {
  return {
    list: async () => Promise.resolve(tables),
    elements: async () => Promise.resolve([]),
    listIpSets: async () => Promise.resolve(sets),
  };
}
