import { describe, expect, it } from 'vitest';
import type { NftObject, NftTable, PacketFilter } from '../../../../src/dataplane/packet-filter.ts';

/** A fresh host without tables, and the means to meddle with it. */
export interface PacketFilterFixture extends AsyncDisposable {
  /** A filter that remembers nothing of what others of this host did. */
  newFilter(): PacketFilter;
  hasTable(name: string): Promise<boolean>;
  removeTable(name: string): Promise<void>;
  /** Puts a rule of another program into the chain of the table. */
  addForeignRule(table: string, chain: string): Promise<void>;
  hasForeignRule(table: string): Promise<boolean>;
}

const signal = new AbortController().signal;

/** What every PacketFilter does, whatever is underneath. */
export function packetFilterContract(name: string, makeFixture: () => Promise<PacketFilterFixture>): void {
  describe(`packet filter contract (${name})`, () => {
    it('creates a table, and does not change it while the desired state stays', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
      expect(await host.hasTable('wanted')).toBe(true);
      expect([await filter.has('wanted', signal), await filter.has('other', signal)]).toEqual([true, false]);
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('unchanged');
      expect(await filter.replace(tableWith('192.0.2.2'), signal)).toBe('changed');
      expect(await filter.replace(tableWith('192.0.2.2'), signal)).toBe('unchanged');
    });

    it('restores a table that another program removed', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.replace(tableWith('192.0.2.1'), signal);
      await host.removeTable('wanted');
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
      expect(await host.hasTable('wanted')).toBe(true);
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('unchanged');
    });

    it('undoes changes of another program to a table', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      await filter.replace(tableWith('192.0.2.1'), signal);
      await host.addForeignRule('wanted', 'postrouting');
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
      expect(await host.hasForeignRule('wanted')).toBe(false);
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('unchanged');
    });

    it('removes a table that is not desired, also one of an earlier filter, and succeeds when there is none', async () => {
      await using host = await makeFixture();
      const none = { name: 'wanted', objects: [] };
      expect(await host.newFilter().replace(none, signal)).toBe('unchanged');
      await host.newFilter().replace(tableWith('192.0.2.1'), signal);
      const filter = host.newFilter();
      expect(await filter.replace(none, signal)).toBe('changed');
      expect(await host.hasTable('wanted')).toBe(false);
      expect(await filter.replace(none, signal)).toBe('unchanged');
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
    });

    it('does not create a table that is optional, and changes an existing one', async () => {
      await using host = await makeFixture();
      const filter = host.newFilter();
      const table = { ...tableWith('192.0.2.1'), onlyIfExists: true };
      expect(await filter.replace(table, signal)).toBe('unchanged');
      expect(await host.hasTable('wanted')).toBe(false);
      await filter.replace(tableWith('192.0.2.2'), signal);
      expect(await filter.replace(table, signal)).toBe('changed');
      expect(await filter.replace(table, signal)).toBe('unchanged');
      expect(await host.hasTable('wanted')).toBe(true);
    });

    it('replaces a table it does not remember once', async () => {
      await using host = await makeFixture();
      await host.newFilter().replace(tableWith('192.0.2.1'), signal);
      const filter = host.newFilter();
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('unchanged');
    });

    it('touches no other table', async () => {
      await using host = await makeFixture();
      await host.newFilter().replace({ ...tableWith('192.0.2.1'), name: 'other' }, signal);
      await host.addForeignRule('other', 'postrouting');
      const filter = host.newFilter();
      await filter.replace(tableWith('192.0.2.1'), signal);
      await filter.replace({ name: 'wanted', objects: [] }, signal);
      expect(await host.hasForeignRule('other')).toBe(true);
    });

    it('does nothing once its signal is aborted', async () => {
      await using host = await makeFixture();
      const reason = new Error('no longer wanted');
      await expect(host.newFilter().replace(tableWith('192.0.2.1'), AbortSignal.abort(reason))).rejects.toBe(reason);
      expect(await host.hasTable('wanted')).toBe(false);
    });
  });
}

/** A table `wanted` with a set of one address and a chain `postrouting`. */
export function tableWith(address: string): NftTable {
  const objects: readonly NftObject[] = [
    { set: { name: 'addresses', type: 'ipv4_addr', elem: [address, '192.0.2.250', '192.0.2.251'] } },
    { chain: { name: 'postrouting', type: 'nat', hook: 'postrouting', prio: 100, policy: 'accept' } },
  ];
  return { name: 'wanted', objects };
}
