import { expect, it } from 'vitest';
import { memoryPacketTables } from '../../../../../test/support/memory/memory-packet-tables.ts';
import type { HostChain, HostTable } from '../../../../dataplane/packet-tables.ts';
import type { NodeTraffic } from '../../../../install/host/firewall/traffic.ts';
import { parseAddress } from '../../../../net/address.ts';
import { parseCidr } from '../../../../net/cidr.ts';
import { firewallInspection } from './inspect-firewall.ts';

const NODE: NodeTraffic = {
  families: new Set([4]),
  pools: [parseCidr('10.65.0.0/16')],
  own: new Map([[4, { address: parseAddress('192.0.2.11'), device: 'eth0' }]]),
  peers: [parseAddress('192.0.2.12')],
  tunnels: ['vxlan4'],
  direct: new Set(),
  bgpPort: 179,
};
const chain = (hook: string, policy: 'accept' | 'drop'): HostChain => ({
  name: hook.toUpperCase(),
  base: { type: 'filter', hook, priority: 0, policy },
  rules: [],
});
const filterTable = (...chains: readonly HostChain[]): HostTable => ({
  family: 'ip',
  name: 'filter',
  chains,
  sets: [],
});

async function problemsWith(table: HostTable, traffic: NodeTraffic | undefined) {
  const tables = memoryPacketTables({ tables: [table] });
  // A folder without tables of legacy iptables.
  const { inspect } = firewallInspection({ procDir: '/nonexistent', tables, traffic: () => traffic });
  return inspect(new AbortController().signal);
}

it('names what chains of other programs drop, and the command that accepts it', async () => {
  const table = filterTable(chain('forward', 'drop'), chain('input', 'drop'), chain('output', 'accept'));
  expect(await problemsWith(table, NODE)).toEqual([
    {
      code: 'kernel/forward-dropped',
      severity: 'error',
      text: 'host firewall: chain FORWARD of table "ip filter" drops packets of pods',
      remedy:
        'Accept packets of pods now, and configure the firewall to make that permanent: iptables-nft -I FORWARD -i npl+ -j ACCEPT && iptables-nft -I FORWARD -o npl+ -j ACCEPT',
    },
    {
      code: 'kernel/tunnel-dropped',
      severity: 'error',
      text: 'host firewall: chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from other nodes',
      remedy:
        'Accept these packets now, and configure the firewall to make that permanent: iptables-nft -I INPUT -p udp --dport 4789 -j ACCEPT',
    },
    expect.objectContaining({ code: 'kernel/bgp-dropped', severity: 'warning' }),
  ]);
});

it('says nothing of tables of netplug, and cannot judge before the cluster is known', async () => {
  const own = { ...filterTable(chain('forward', 'drop')), family: 'inet', name: 'netplug-policy' };
  expect(await problemsWith(own, NODE)).toEqual([]);
  expect(await problemsWith(own, undefined)).toBeUndefined();
});
