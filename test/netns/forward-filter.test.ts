// A firewall that forwards nothing, as Docker and ufw set it up: the doctor names it, and its remedy helps.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FIREWALL_CHECKS } from '../../src/apps/ctl/doctor/kernel-checks.ts';
import { judgeFirewall } from '../../src/install/host/firewall/judge-firewall.ts';
import { kernelSource, listedSource, readFilters } from '../../src/install/host/firewall/read-filters.ts';
import { readLegacyFilters } from '../../src/install/host/firewall/read-legacy-filters.ts';
import type { NodeTraffic } from '../../src/install/host/firewall/traffic.ts';
import { type Finding, judgeAll } from '../../src/checks/check.ts';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { linuxPacketTables } from '../../src/dataplane/linux/linux-packet-tables.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { closedToAll } from '../../src/policy/ruleset/base-chains.ts';
import { renderPodTable } from '../../src/routing/pod-table.ts';
import { renderTunnelTable } from '../../src/routing/tunnel-table.ts';
import { DOCKER, FIREWALLD, KUBE_PROXY } from '../support/foreign-tables.ts';
import { type TestNetns, newNetns, waitInside } from '../support/netns.ts';
import { within } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();
const tables = linuxPacketTables();
const POOLS = ['10.65.0.0/16', 'fd00:65::/48'].map(parseCidr);
const NODE: NodeTraffic = {
  families: new Set([4, 6]),
  pools: POOLS,
  own: new Map(),
  peers: [],
  tunnels: [],
  direct: new Set(),
  bgpPort: undefined,
};
const TO = { IPv4: '10.65.0.2', IPv6: 'fd00:65::2' };

let host: TestNetns;
let pod: TestNetns;
let procDir: string;

beforeAll(async () => {
  host = scope.use(await newNetns());
  ({ procDir } = scope.use(await waitInside(host)));
  pod = scope.use(await newNetns());
  const other = scope.use(await newNetns());
  await host.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  await within(host, async () => {
    const [from, to] = [['10.65.0.1', 'fd00:65::1'], Object.values(TO)];
    await linuxKernel().apply(networkOf(pod.path, { hostLinkName: 'nplone', addresses: from }), signal);
    await linuxKernel().apply(networkOf(other.path, { hostLinkName: 'npltwo', addresses: to }), signal);
  });
});

afterEach(async () =>
  host.exec('sh', '-ec', `${FLUSH}; iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F FORWARD`),
);

afterAll(async () => scope.disposeAsync());

interface Firewall {
  readonly what: string;
  readonly setUp: string;
  readonly found: string;
  readonly reached: string;
}

const FLUSH = 'iptables-nft -P FORWARD ACCEPT; ip6tables-nft -P FORWARD ACCEPT; nft flush ruleset';

const FIREWALLS: readonly Firewall[] = [
  {
    what: 'iptables in nftables with policy DROP',
    setUp: 'iptables-nft -P FORWARD DROP',
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'ip6tables in nftables with policy DROP',
    setUp: 'ip6tables-nft -P FORWARD DROP',
    found: 'chain FORWARD of table "ip6 filter" drops packets of pods',
    reached: TO.IPv6,
  },
  {
    what: 'the chains of Docker',
    setUp: `iptables-nft -N DOCKER-USER; iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -A FORWARD -j DOCKER-USER;
      iptables-nft -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT;
      iptables-nft -A FORWARD -i docker0 ! -o docker0 -j ACCEPT; iptables-nft -P FORWARD DROP`,
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'the old iptables with policy DROP',
    setUp: 'iptables-legacy -P FORWARD DROP',
    found: 'chain FORWARD of table "ip filter" drops packets of pods',
    reached: TO.IPv4,
  },
  {
    what: 'a table of nftables that ends with a rejection',
    setUp: `nft 'table inet wall {
      chain forward { type filter hook forward priority 10; ct state established accept; iifname "lo" accept; reject; }
    }'`,
    found: 'chain forward of table "inet wall" drops packets of pods',
    reached: TO.IPv6,
  },
  {
    what: 'firewalld',
    setUp: `nft '${FIREWALLD}'`,
    found: 'chain filter_FORWARD of table "inet firewalld" drops packets of pods',
    reached: TO.IPv6,
  },
  {
    what: 'a map of interfaces that drops what it does not name',
    setUp: `nft 'table ip wall {
      map links { type ifname : verdict; elements = { "eth9" : accept, "docker0" : jump containers }; }
      chain forward { type filter hook forward priority 10; iifname vmap @links; counter drop; }
      chain containers { accept; }
    }'`,
    found: 'chain forward of table "ip wall" drops packets of pods',
    reached: TO.IPv4,
  },
];

/** Tables that drop some packets, and those of pods only where they are asked to. */
const HEALTHY: readonly { readonly what: string; readonly setUp: string }[] = [
  { what: 'kube-proxy in nftables mode', setUp: `nft '${KUBE_PROXY}'` },
  { what: 'Docker with nftables', setUp: `nft '${DOCKER}'` },
  {
    what: 'a firewall with the links of pods in a zone that it trusts',
    setUp: `nft '${FIREWALLD.replaceAll('"npl9*"', '"npl*"')}'`,
  },
  {
    what: 'ranges of pods that a table of both families accepts',
    setUp: `nft 'table inet wall { chain forward {
      type filter hook forward priority 10; policy drop
      ip saddr 10.64.0.0/10 accept; ip daddr 10.64.0.0/10 accept; ip6 saddr fd00::/8 accept; ip6 daddr fd00::/8 accept; icmpv6 type 135-136 accept
    }; }'`,
  },
];

describe.each(FIREWALLS)('$what', ({ setUp, found, reached }) => {
  it('is reported by the doctor until its remedy is applied; then pods reach each other', async () => {
    expect([await faults(), await pod.ping(reached)]).toEqual([[], true]);
    await host.exec('sh', '-ec', setUp);
    const [fault, ...more] = await faults();
    expect([fault?.found, more, await pod.pingOnce(reached)]).toEqual([found, [], false]);
    await host.exec('sh', '-ec', fault?.command ?? 'false');
    expect([await faults(), await pod.ping(reached)]).toEqual([[], true]);
  });
});

describe.each(HEALTHY)('$what', ({ setUp }) => {
  it('is not reported by the doctor while pods reach each other', async () => {
    await host.exec('sh', '-ec', setUp);
    expect([await faults(), await pod.ping(TO.IPv4), await pod.ping(TO.IPv6)]).toEqual([[], true, true]);
  });
});

describe('a firewall that accepts packets from pods, tunnels and answers', () => {
  it('is a warning of what is shut out, until its remedy is applied', async () => {
    const [far, outside] = [scope.use(await newNetns()), scope.use(await newNetns())];
    await connect(far, 'vxlan.netplug', '10.65.1');
    await connect(outside, 'eth0', '192.0.2');
    await host.exec(
      'nft',
      `table inet wall { chain forward {
        type filter hook forward priority 10; policy drop
        ct state established,related accept; iifname "npl*" accept; iifname "vxlan.netplug" accept
      }; }`,
    );
    const node = { ...NODE, peers: [parseAddress('192.0.2.7')], tunnels: ['vxlan4'] as const };
    const [fault, ...more] = await faults(node);
    expect([fault, more]).toMatchObject([
      {
        id: 'kernel/outside-dropped',
        severity: 'warning',
        found: 'chain forward of table "inet wall" drops connections to pods from addresses outside the pools',
      },
      [],
    ]);
    expect([await pod.ping('10.65.1.2'), await far.ping(TO.IPv4)]).toEqual([true, true]);
    expect([await pod.ping('192.0.2.2'), await outside.pingOnce(TO.IPv4)]).toEqual([true, false]);
    await host.exec('sh', '-ec', fault?.command ?? 'false');
    expect([await faults(node), await outside.ping(TO.IPv4)]).toEqual([[], true]);
  });
});

describe('the tables of netplug', () => {
  it('are not reported by the doctor, whatever policies drop, and a table of another family with such a name is', async () => {
    using filter = await within(host, async () => NftPolicyFilter.open());
    const strangers = renderTunnelTable({ tunnels: ['vxlan4', 'vxlan6', 'ipip4'], nodes: [] });
    for (const table of [closedToAll(), renderPodTable('strict'), strangers!]) await filter.apply(table, { signal });
    expect([await faults(), await pod.pingOnce(TO.IPv4)]).toEqual([[], false]);
    await host.exec(
      'nft',
      'add table ip netplug-policy; add chain ip netplug-policy f { type filter hook forward priority 0; policy drop; }',
    );
    expect((await faults()).map(({ found }) => found)).toEqual([
      'chain f of table "ip netplug-policy" drops packets of pods',
    ]);
  });
});

describe('a filter that the doctor cannot read', () => {
  it('is reported as not read, because nothing is known of the verdict', async () => {
    await host.exec(
      'nft',
      `table ip wall {
        map callers { type ipv4_addr : verdict; flags interval; elements = { 192.0.2.0/24 : drop }; }
        chain forward { type filter hook forward priority 20; ct state established accept; ip saddr vmap @callers; drop; }
      }`,
    );
    expect(await faults()).toMatchObject([
      {
        id: 'kernel/filter-unread',
        severity: 'note',
        found: 'chain forward of table "ip wall" is not read to its end: it has a rule with map callers',
      },
    ]);
  });
});

/** Connects the namespace with a link of the host. */
async function connect(other: TestNetns, link: string, network: string): Promise<void> {
  await host.exec('ip', 'link', 'add', 'name', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', other.name);
  for (const [place, name, end] of [
    [host, link, '1'],
    [other, 'eth0', '2'],
  ] as const) {
    await place.exec('ip', 'address', 'add', `${network}.${end}/24`, 'dev', name);
    await place.exec('ip', 'link', 'set', 'dev', name, 'up');
  }
  await other.exec('ip', 'route', 'add', 'default', 'via', `${network}.1`);
}

/** Reads the filters in both ways: as the doctor, which lists all tables, and as the agent. */
async function faults(node: NodeTraffic = NODE): Promise<readonly Finding[]> {
  const { asDoctor, asAgent, legacy } = await within(host, async () => ({
    asDoctor: await readFilters(listedSource(await tables.list(signal), tables), signal),
    asAgent: await readFilters(await kernelSource(tables, signal), signal),
    legacy: await readLegacyFilters({ procDir }, signal),
  }));
  expect(asAgent).toEqual(asDoctor);
  const firewall = judgeFirewall({ filters: [...asDoctor, ...legacy.filters], unread: legacy.unread }, node);
  return judgeAll(FIREWALL_CHECKS, { firewall });
}
