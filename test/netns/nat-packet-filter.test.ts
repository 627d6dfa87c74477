import { mkdtempDisposable, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { refusalOf } from '../contract/suites/dataplane/kernel.ts';
import { NftPacketFilter } from '../../src/dataplane/linux/nft-packet-filter.ts';
import { packetFilterContract, tableWith } from '../contract/suites/dataplane/packet-filter.ts';
import type { NftTable } from '../../src/dataplane/packet-filter.ts';
import { enterNetns, newNetns } from '../support/netns.ts';

const signal = new AbortController().signal;

packetFilterContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const host = scope.use(await newNetns());
  const inside = enterNetns(host);
  scope.defer(() => {
    inside.leave();
  });
  const show = async (): Promise<string> => host.exec('nft', 'list', 'ruleset');
  return {
    newFilter: () => new NftPacketFilter(),
    hasTable: async (name) => (await show()).includes(`table inet ${name} `),
    removeTable: async (name) => {
      await host.exec('nft', 'delete', 'table', 'inet', name);
    },
    addForeignRule: async (table, chain) => {
      await host.exec('nft', 'add', 'rule', 'inet', table, chain, 'counter', 'comment', '"foreign"');
    },
    hasForeignRule: async (table) => (await host.exec('nft', 'list', 'table', 'inet', table)).includes('foreign'),
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});

describe('nftables', () => {
  it('is named when it is not installed', async () => {
    const refusal = await refusalOf(
      new NftPacketFilter({ program: 'npl-no-such-nft' }).replace(tableWith('192.0.2.1'), signal),
    );
    expect(refusal).toMatchObject({ code: 'kernel/nft-missing', hint: expect.stringContaining('nftables') });
  });

  it('removes from a table what has another kind, definition or owner', async () => {
    await using host = await newNetns();
    const inside = enterNetns(host);
    try {
      await new NftPacketFilter().replace(tableWith('192.0.2.1'), signal);
      const wanted = await host.exec('nft', 'list', 'ruleset');
      await host.exec('nft', 'flush', 'ruleset');
      await host.exec(
        'nft',
        `table inet wanted {
          map addresses { type ipv6_addr : verdict; elements = { 2001:db8::1 : jump foreign }; }
          counter foreign { }
          set foreign { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 }; }
          chain foreign { ip saddr @foreign counter name foreign; }
          chain postrouting { type filter hook forward priority 7; ip6 saddr vmap @addresses; jump foreign; }
        }`,
      );
      expect(await new NftPacketFilter().replace(tableWith('192.0.2.1'), signal)).toBe('changed');
      expect(await host.exec('nft', 'list', 'ruleset')).toBe(wanted);
    } finally {
      inside.leave();
    }
  });

  it('does not start nft while no table has changed, and compares after a change of any', async () => {
    await using host = await newNetns();
    await using folder = await mkdtempDisposable(join(tmpdir(), 'netplug-counted-'));
    const [program, runs] = ['nft', 'runs'].map((name) => join(folder.path, name)) as [string, string];
    await writeFile(program, `#!/bin/sh\necho >> ${runs}\nexec nft "$@"\n`, { mode: 0o755 });
    const inside = enterNetns(host);
    try {
      const filter = new NftPacketFilter({ program });
      const started = async (table: NftTable): Promise<readonly [string, boolean]> => {
        const before = (await readFile(runs, 'utf8').catch(() => '')).length;
        const answer = await filter.replace(table, signal);
        return [answer, (await readFile(runs, 'utf8')).length > before];
      };
      const [wanted, none, optional] = [
        tableWith('192.0.2.1'),
        { name: 'none', objects: [] },
        { ...tableWith('192.0.2.1'), name: 'optional', onlyIfExists: true },
      ];
      expect(await started(wanted)).toEqual(['changed', true]);
      expect(await started(wanted)).toEqual(['unchanged', false]);
      for (const missing of [none, optional]) {
        expect(await started(missing)).toEqual(['unchanged', true]);
        expect(await started(missing)).toEqual(['unchanged', false]);
      }
      expect(await started({ ...optional, onlyIfExists: false })).toEqual(['changed', true]);
      expect(await started(wanted)).toEqual(['unchanged', true]);
      expect(await started(wanted)).toEqual(['unchanged', false]);
      await host.exec('nft', 'add', 'rule', 'inet', 'wanted', 'postrouting', 'counter');
      expect(await started(wanted)).toEqual(['changed', true]);
      await host.exec('nft', 'delete', 'table', 'inet', 'wanted');
      expect(await started(wanted)).toEqual(['changed', true]);
      expect(await started(tableWith('192.0.2.9'))).toEqual(['changed', true]);
      expect(await started(tableWith('192.0.2.9'))).toEqual(['unchanged', false]);
    } finally {
      inside.leave();
    }
  });

  it('keeps the table when it refuses a new one, and reports why', async () => {
    await using host = await newNetns();
    const inside = enterNetns(host);
    try {
      const filter = new NftPacketFilter();
      await filter.replace(tableWith('192.0.2.1'), signal);
      const before = await host.exec('nft', 'list', 'ruleset');
      const wrong = { name: 'wanted', objects: [{ rule: { chain: 'nowhere', expr: [{ masquerade: {} }] } }] };
      const refusal = await refusalOf(filter.replace(wrong, signal));
      expect(refusal.code).toBe('kernel/failed');
      expect(refusal.message).toMatch(/Cannot replace the nftables table "wanted": nft says ".*No such file/);
      expect(await host.exec('nft', 'list', 'ruleset')).toBe(before);
      expect(await filter.replace(tableWith('192.0.2.1'), signal)).toBe('changed');
    } finally {
      inside.leave();
    }
  });
});
