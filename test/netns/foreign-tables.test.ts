// The tables of netplug beside those of other programs, whatever release of nft has written them.
import { expect, it } from 'vitest';
import { reconcileNat } from '../../src/apps/agent/network/routes/reconcile-nat.ts';
import { loadAddon } from '../../src/dataplane/linux/addon.ts';
import { linuxPacketTables } from '../../src/dataplane/linux/linux-packet-tables.ts';
import { type Message, attribute } from '../../src/dataplane/linux/netlink.ts';
import { addElements, addSet, addTable } from '../../src/dataplane/linux/nft-messages.ts';
import { elementLists } from '../../src/dataplane/linux/nft-elements.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { NftSocket } from '../../src/dataplane/linux/nft-socket.ts';
import type { FilterTable } from '../../src/dataplane/policy-filter.ts';
import { PACKET_TABLES } from '../../src/install/packet-tables.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { closedToAll } from '../../src/policy/ruleset/base-chains.ts';
import { NAT_TABLE } from '../../src/routing/nat-table.ts';
import { renderPodTable } from '../../src/routing/pod-table.ts';
import { renderTunnelTable } from '../../src/routing/tunnel-table.ts';
import { DOCKER, FIREWALLD, KUBE_PROXY } from '../support/foreign-tables.ts';
import { enterNetns, newNetns } from '../support/netns.ts';

const { signal } = new AbortController();
const NOTHING = { natPools: [], allPools: [], floating: [], tunnels: [] };
const TRANSLATING = {
  natPools: [parseCidr('10.65.0.0/16'), parseCidr('fd00:65::/48')],
  allPools: [parseCidr('10.65.0.0/16'), parseCidr('10.66.0.0/16'), parseCidr('fd00:65::/48')],
  floating: [{ external: parseAddress('203.0.113.1'), internal: parseAddress('10.65.0.1') }],
  tunnels: ['vxlan.netplug'],
};

/** Writes every table of netplug, changes some, and writes them again by a filter that knows nothing. */
async function writeTables(filter: NftPolicyFilter, next: NftPolicyFilter): Promise<void> {
  const nodes = ['192.0.2.1', '192.0.2.2', '2001:db8::1'].map(parseAddress);
  const tunnels = (count: number): FilterTable =>
    renderTunnelTable({ tunnels: ['vxlan4', 'vxlan6', 'ipip4'], nodes: nodes.slice(0, count) })!;
  for (const table of [closedToAll(), renderPodTable('off'), tunnels(1)]) await filter.apply(table, { signal });
  await reconcileNat(filter, TRANSLATING, signal);
  await filter.apply(tunnels(3), { signal });
  await filter.apply(renderPodTable('strict'), { signal });
  await reconcileNat(filter, NOTHING, signal);
  await reconcileNat(filter, TRANSLATING, signal);
  const none = { chains: 0, sets: 0, elements: 0 };
  for (const table of [closedToAll(), renderPodTable('strict'), tunnels(3)])
    expect(await next.apply(table, { signal })).toEqual(none);
  expect(await reconcileNat(next, TRANSLATING, signal)).toEqual(none);
}

it.each([
  { what: 'kube-proxy in nftables mode', tables: KUBE_PROXY, name: 'ip kube-proxy' },
  { what: 'Docker with nftables', tables: DOCKER, name: 'ip docker-bridges' },
  { what: 'firewalld', tables: FIREWALLD, name: 'inet firewalld' },
])(
  'the tables of netplug change nothing of $what, and nothing of theirs is lost with that',
  async ({ tables, name }) => {
    await using host = await newNetns();
    const inside = enterNetns(host);
    using filter = NftPolicyFilter.open();
    using next = NftPolicyFilter.open();
    inside.leave();
    await host.exec('nft', tables);
    const table = name.split(' ');
    const show = async (...what: string[]): Promise<string> => host.exec('nft', '-a', 'list', 'table', ...what);
    const before = await show(...table);
    await writeTables(filter, next);
    expect(await show(...table)).toBe(before);
    const nat = await show('inet', NAT_TABLE);
    await host.exec('nft', 'delete', 'table', ...table);
    expect(await show('inet', NAT_TABLE)).toBe(nat);
    await host.exec('nft', tables);
    const again = await show(...table);
    for (const own of PACKET_TABLES) await filter.remove(own, signal);
    expect(await show(...table)).toBe(again);
  },
);

const NFTA_SET_USERDATA = 13;
/** What nft stores with a set of ranges of IPv4 addresses, by release; 1.0.6 crashes when it reads that of 1.1.3. */
const USER_DATA = { '1.0.6': '000402000000', '1.1.3': '00040200000003080004040000000100' } as const;

it.each(['1.0.6', '1.1.3'] as const)(
  'the tables of netplug are written beside sets that nft %s has made',
  async (release) => {
    await using host = await newNetns();
    const inside = enterNetns(host);
    using filter = NftPolicyFilter.open();
    using next = NftPolicyFilter.open();
    using socket = NftSocket.open(loadAddon());
    const reader = linuxPacketTables();
    try {
      const elements = elementLists({ kind: 'nets', family: 4, elements: new Set() }, ['10.0.0.0/8']);
      const contents = elements.map((each) => addElements('other', 'ranges', { elements: each }));
      await socket.commit('write the table of another program', [addTable('other'), rangesOf(release), ...contents]);
      // The oracle of the test: the nft of Debian 12 crashes when it reads what 1.1.3 has stored.
      const listed = await host.exec('nft', 'list', 'ruleset').catch(() => 'crashed');
      expect(listed).toMatch(release === '1.1.3' ? /^crashed$/ : /elements = \{ 10\.0\.0\.0\/8 \}/);
      await writeTables(filter, next);
      const tables = await reader.list(signal);
      expect(tables.map(({ name }) => name).toSorted()).toEqual([...PACKET_TABLES, 'other'].toSorted());
      const other = tables.find(({ name }) => name === 'other')!;
      expect(other.sets).toEqual([{ name: 'ranges', keyType: 7, flags: 4 }]);
      expect(await reader.elements(other, other.sets[0]!, signal)).toContainEqual({ key: '10.0.0.0' });
      for (const own of PACKET_TABLES) await filter.remove(own, signal);
      expect(await reader.list(signal)).toEqual([other]);
    } finally {
      inside.leave();
    }
  },
);

function rangesOf(release: keyof typeof USER_DATA): Message {
  const set = addSet('other', 'ranges', { kind: 'nets', family: 4, elements: new Set() });
  return {
    ...set,
    body: Buffer.concat([set.body, attribute(NFTA_SET_USERDATA, Buffer.from(USER_DATA[release], 'hex'))]),
  };
}
