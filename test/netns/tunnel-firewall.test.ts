// A firewall of a node that drops the packets of tunnels or BGP: it is named, and what is typed then lets packets pass.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FIREWALL_INSPECTION, firewallInspection } from '../../src/apps/agent/network/host/inspect-firewall.ts';
import { HostInspector } from '../../src/apps/agent/network/host/inspect-host.ts';
import { TableFollower } from '../../src/apps/agent/network/follow-tables.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { linuxTableEvents } from '../../src/dataplane/linux/linux-table-events.ts';
import { PACKET_TABLES } from '../../src/install/packet-tables.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { linuxPacketTables } from '../../src/dataplane/linux/linux-packet-tables.ts';
import { type FirewallJudgement, judgeFirewall } from '../../src/install/host/firewall/judge-firewall.ts';
import { kernelSource, listedSource, readFilters } from '../../src/install/host/firewall/read-filters.ts';
import { readLegacyFilters } from '../../src/install/host/firewall/read-legacy-filters.ts';
import type { NodeTraffic } from '../../src/install/host/firewall/traffic.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import type { TunnelKind } from '../../src/routing/tunnels.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { enterNetns, type TestNetns, newNetns, waitInside } from '../support/netns.ts';
import { until } from '../support/until.ts';
import { answerInside, askFrom, within } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();
const tables = linuxPacketTables();

/** The far end of each tunnel, to which the pod of the node sends. */
const FAR: Readonly<Record<TunnelKind, string>> = { vxlan4: '10.65.1.4', vxlan6: '10.65.1.6', ipip4: '10.65.1.9' };
/** As which the test answers in place of BIRD. */
const BGP_PORT = 7007;
const NODE: NodeTraffic = {
  families: new Set([4, 6]),
  pools: [parseCidr('10.65.0.0/16')],
  own: new Map(
    (['192.0.2.1', '2001:db8::1'] as const).map((text) => {
      const address = parseAddress(text);
      return [address.family, { address, device: 'eth0' }];
    }),
  ),
  peers: ['192.0.2.2', '2001:db8::2'].map(parseAddress),
  tunnels: ['vxlan4', 'vxlan6', 'ipip4'],
  direct: new Set(),
  bgpPort: BGP_PORT,
};
const ICMP =
  'icmp type echo-reply accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept;';

let node: TestNetns;
let other: TestNetns;
let pod: TestNetns;
let procDir: string;
/** Without the module, only what is said of its packets is tested. */
let hasIpip = true;

beforeAll(async () => {
  [node, other, pod] = [scope.use(await newNetns()), scope.use(await newNetns()), scope.use(await newNetns())];
  ({ procDir } = scope.use(await waitInside(node)));
  await node.exec('ip', 'link', 'add', 'name', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', other.name);
  for (const [host, own, far] of [
    [node, '1', '2'],
    [other, '2', '1'],
  ] as const) {
    await host.addAddress(`192.0.2.${own}/24`, 'eth0');
    await host.addAddress(`2001:db8::${own}/64`, 'eth0');
    await host.exec(
      'sh',
      '-ec',
      `ip link set eth0 up; sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0
      ip link add vxlan4 type vxlan id 4 dstport 4789 local 192.0.2.${own} remote 192.0.2.${far} dev eth0
      ip link add vxlan6 type vxlan id 6 dstport 4789 local 2001:db8::${own} remote 2001:db8::${far} dev eth0 udp6zerocsumrx
      for device in vxlan4 vxlan6; do ip link set $device mtu 1400 up; done`,
    );
    const ipip = `ip link add ipip4 type ipip local 192.0.2.${own} remote 192.0.2.${far}; ip link set ipip4 mtu 1400 up`;
    await host.exec('sh', '-ec', ipip).catch(() => (hasIpip = false));
  }
  // The node has one address at all tunnels, and the other one an address at each.
  await node.exec('sh', '-ec', 'for device in vxlan4 vxlan6; do ip addr add 10.65.9.1/32 dev $device; done');
  for (const [device, far] of Object.entries(FAR)) {
    if (device === 'ipip4' && !hasIpip) continue;
    await other.exec('ip', 'addr', 'add', `${far}/32`, 'dev', device);
    await node.exec('ip', 'route', 'add', far, 'dev', device);
  }
  await within(node, async () =>
    linuxKernel().apply(networkOf(pod.path, { hostLinkName: 'nplone', addresses: ['10.65.0.1'] }), signal),
  );
  scope.use(await answerInside(node, 'node'));
});

afterEach(async () =>
  node.exec(
    'sh',
    '-ec',
    'nft flush ruleset; for chain in INPUT OUTPUT; do iptables-legacy -P $chain ACCEPT; iptables-legacy -F $chain; done',
  ),
);

afterAll(async () => scope.disposeAsync());

/** Reports whether a packet of the pod comes back from the other node. */
async function passes(kind: TunnelKind): Promise<boolean> {
  const gateway = kind === 'ipip4' ? [] : ['via', '10.65.9.1'];
  await other.exec('ip', 'route', 'replace', '10.65.0.1', ...gateway, 'dev', kind, 'onlink');
  return pod.pingOnce(FAR[kind], 2);
}

async function judge(): Promise<FirewallJudgement> {
  return within(node, async () => {
    const filters = await readFilters(await kernelSource(tables, signal), signal);
    expect(filters).toEqual(await readFilters(listedSource(await tables.list(signal), tables), signal));
    const legacy = await readLegacyFilters({ procDir }, signal);
    return judgeFirewall({ filters: [...filters, ...legacy.filters], unread: legacy.unread }, NODE);
  });
}

interface Firewall {
  readonly what: string;
  readonly setUp: string;
  readonly found: string;
  readonly kinds: readonly TunnelKind[];
}

const FIREWALLS: readonly Firewall[] = [
  {
    what: 'a rule of iptables against the port of VXLAN',
    setUp: 'iptables-nft -A INPUT -p udp --dport 4789 -j DROP',
    found: 'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan4'],
  },
  {
    what: 'a rule of ip6tables for a range of ports',
    setUp: 'ip6tables-nft -A INPUT -p udp --dport 4000:5000 -j REJECT',
    found: 'chain INPUT of table "ip6 filter" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan6'],
  },
  {
    what: 'legacy iptables that drop what is not on a list of protocols',
    setUp: `iptables-legacy -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; iptables-legacy -A INPUT -p icmp -j ACCEPT
      iptables-legacy -A INPUT -p tcp -j ACCEPT; iptables-legacy -A INPUT -p ipencap -j ACCEPT; iptables-legacy -A INPUT -j DROP`,
    found: 'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan4'],
  },
  {
    what: 'the chains of ufw',
    setUp: `iptables-nft-restore --noflush <<'END'
*filter
:ufw-before-input -
:ufw-not-local -
:ufw-user-input -
-A INPUT -j ufw-before-input
-A INPUT -j ufw-user-input
-A INPUT -j DROP
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp -j ACCEPT
-A ufw-before-input -p 4 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw-not-local -m limit --limit 3/min --limit-burst 10 -j LOG
-A ufw-not-local -j DROP
-A ufw-user-input -p tcp -j ACCEPT
COMMIT
END`,
    found: 'chain INPUT of table "ip filter" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan4'],
  },
  {
    what: 'the input of firewalld',
    setUp: `nft 'table inet firewalld {
      chain filter_INPUT { type filter hook input priority filter + 10; policy accept
        ct state { established, related } accept; ct status dnat accept; iifname "lo" accept
        ct state vmap { invalid : drop }; jump filter_INPUT_ZONES; reject with icmpx admin-prohibited; }
      chain filter_INPUT_ZONES { iifname "eth9" goto filter_IN_trusted; goto filter_IN_public; }
      chain filter_IN_trusted { accept; }
      chain filter_IN_public { jump filter_IN_public_allow; meta l4proto { icmp, ipv6-icmp } accept
        reject with icmpx admin-prohibited; }
      chain filter_IN_public_allow { tcp dport 1-65535 ct state new accept; meta l4proto 4 accept
        ip6 daddr fe80::/64 udp dport 546 accept; }
    }'`,
    found: 'chain filter_INPUT of table "inet firewalld" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan4', 'vxlan6'],
  },
  {
    what: 'a list of ports in nftables',
    setUp: `nft 'table inet wall { chain in { type filter hook input priority 0; policy drop;
      ct state vmap { invalid : drop, related : accept }; iif lo accept; ${ICMP} meta l4proto { tcp, 4 } accept
      udp dport { 53, 8472, 30000-32767 } accept; }; }'`,
    found: 'chain in of table "inet wall" drops VXLAN (UDP 4789) from other nodes',
    kinds: ['vxlan4', 'vxlan6'],
  },
  {
    what: 'a list of nodes in nftables that lacks one',
    setUp: `nft 'table inet wall { chain in { type filter hook input priority 0; jump nodes; }
      chain nodes { ip saddr { 192.0.2.7, 192.0.2.128/25 } return; meta l4proto 4 drop; }; }'`,
    found: 'chain in of table "inet wall" drops IP-in-IP (protocol 4) from other nodes',
    kinds: ['ipip4'],
  },
  {
    what: 'a firewall against what the node sends',
    setUp: `nft 'table ip wall { chain out { type filter hook output priority 0; oifname "eth0" udp dport >= 4000 drop; }; }'`,
    found: 'chain out of table "ip wall" drops VXLAN (UDP 4789) to other nodes',
    kinds: ['vxlan4'],
  },
];

describe.each(FIREWALLS)('$what', ({ setUp, found, kinds }) => {
  it('is named until its remedy is typed; then packets of pods arrive', async () => {
    const tried = kinds.filter((kind) => kind !== 'ipip4' || hasIpip);
    const all = async (): Promise<readonly boolean[]> => {
      const passed: boolean[] = [];
      for (const kind of tried) passed.push(await passes(kind));
      return passed;
    };
    expect([await judge(), await all()]).toEqual([{ faults: [], unread: [] }, tried.map(() => true)]);
    await node.exec('sh', '-ec', setUp);
    const { faults, unread } = await judge();
    expect([faults.map((each) => each.found), unread, await all()]).toEqual([[found], [], tried.map(() => false)]);
    await node.exec('sh', '-ec', faults[0]?.command ?? 'false');
    expect([await judge(), await all()]).toEqual([{ faults: [], unread: [] }, tried.map(() => true)]);
  });
});

describe('a firewall against BGP', () => {
  it('is named until its remedy is typed; then the other node connects', async () => {
    await node.exec('sh', '-ec', `iptables-nft -A INPUT -i eth0 -p tcp --dport ${String(BGP_PORT)} -j DROP`);
    const { faults } = await judge();
    expect(faults).toMatchObject([
      { code: 'kernel/bgp-dropped', found: expect.stringMatching(/drops BGP \(TCP 7007\) from other nodes$/) },
    ]);
    await expect(askFrom(other, '192.0.2.1')).rejects.toThrow('aborted');
    await node.exec('sh', '-ec', faults[0]?.command ?? 'false');
    expect([await judge(), await askFrom(other, '192.0.2.1')]).toEqual([{ faults: [], unread: [] }, 'node 192.0.2.2']);
  });
});

describe('the agent', () => {
  it('names a firewall when the kernel reports its change, and no more when its remedy is typed', async () => {
    const inside = enterNetns(node);
    const over = new AbortController();
    try {
      const ports = { clock: systemClock, log: silentLog };
      const inspection = firewallInspection({ procDir, tables, traffic: () => NODE });
      const inspector = new HostInspector(ports, [{ ...inspection, pauseMs: 100 }]);
      const follower = new TableFollower(
        {
          ...ports,
          events: linuxTableEvents(() => false),
          compare: async () => Promise.resolve(false),
          onOthers: () => inspector.request(FIREWALL_INSPECTION),
          ownProgram: 'netplug',
        },
        PACKET_TABLES,
      );
      const running = [inspector.run(over.signal), follower.run(over.signal)];
      const codes = (): string =>
        inspector
          .problems()
          .map(({ code }) => code)
          .join();
      await node.exec('sh', '-ec', 'iptables-nft -P FORWARD DROP; iptables-nft -A INPUT -p udp --dport 4789 -j DROP');
      await until(() => codes().split(',').toSorted().join() === 'kernel/forward-dropped,kernel/tunnel-dropped', codes);
      for (const { remedy = '' } of inspector.problems())
        await node.exec('sh', '-ec', remedy.replace(/^.*permanent: /, ''));
      await until(() => codes() === '', codes);
      expect(await judge()).toEqual({ faults: [], unread: [] });
      over.abort();
      await Promise.all(running);
    } finally {
      over.abort();
      inside.leave();
    }
  });
});

describe.each([
  {
    what: 'a list that has the nodes',
    setUp: `nft 'table inet wall { chain in { type filter hook input priority 0; policy drop; ip saddr { 192.0.2.0/25, 198.51.100.0/24 } accept
      ip6 saddr { 2001:db8::-2001:db8::ff } accept; }; }'`,
  },
  {
    what: 'an interface that is accepted',
    setUp: `nft 'table inet wall { chain in { type filter hook input priority 0; policy drop; iifname { "lo", "eth0" } accept; }; }'`,
  },
  {
    what: 'a rule against special packets',
    setUp: `nft 'table inet wall { chain in { type filter hook input priority 0; udp dport 4789 ip ttl < 5 drop; udp dport 4789 limit rate over 10000/second drop; }; }'`,
  },
])('$what', ({ setUp }) => {
  it('is not named while packets arrive', async () => {
    await node.exec('sh', '-ec', setUp);
    expect([await judge(), await passes('vxlan4'), await passes('vxlan6')]).toEqual([
      { faults: [], unread: [] },
      true,
      true,
    ]);
  });
});

it('does not judge a firewall whose named set of addresses may have the nodes', async () => {
  await node.exec(
    'nft',
    `table ip wall { set friends { type ipv4_addr; elements = { 192.0.2.2 }; }
      chain in { type filter hook input priority 0; policy drop; ip saddr @friends accept; }; }`,
  );
  expect(await judge()).toEqual({
    faults: [],
    unread: ['chain in of table "ip wall" is not read to its end: it has a rule with set friends'],
  });
});
