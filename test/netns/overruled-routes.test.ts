import { describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { putRoute, vxlan } from '../contract/suites/dataplane/host-network.ts';
import { isNetplugError } from '../../src/base/errors.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { formatCidr } from '../../src/net/cidr.ts';
import { listWantedPaths } from '../../src/routing/overruled-routes.ts';
import { enterNetns, newNetns, type TestNetns } from '../support/netns.ts';

const never = new AbortController().signal;
const V4_PODS = ['10.65.0.1', '10.65.0.2'];
const V6_PODS = ['fd00:65::1', 'fd00:65::2'];
const V4_BLOCKS = ['10.65.1.0', '10.65.2.0', '10.65.3.0'];
const V6_BLOCKS = ['fd00:65:1::'];

interface Scene extends AsyncDisposable {
  readonly netns: TestNetns;
  /** Names of the links of the pods. */
  readonly links: readonly string[];
  /** Runs commands of ip, in which LINK stands for the link of the first pod. */
  run(commands: readonly string[]): Promise<void>;
  /** What is overruled: by address, then rule, table, device and destination. */
  look(): Promise<Readonly<Record<string, string>>>;
}

/** A node with two pods, and routes to blocks of other nodes by VXLAN, by IP-in-IP where the kernel has it, and directly. */
async function newScene(): Promise<Scene> {
  const scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const pods = [scope.use(await newNetns()), scope.use(await newNetns())];
  const inside = enterNetns(netns);
  scope.defer(() => {
    inside.leave();
  });
  for (const [name, address] of [
    ['up0', '192.0.2.1'],
    ['vpn0', '100.64.0.7'],
  ] as const) {
    await netns.exec('ip', 'link', 'add', 'name', name, 'type', 'veth', 'peer', 'name', `${name}-peer`);
    await netns.exec('ip', 'link', 'set', 'dev', `${name}-peer`, 'up');
    await netns.exec('ip', 'link', 'set', 'dev', name, 'up');
    await netns.exec('ip', 'address', 'add', `${address}/24`, 'dev', name);
  }
  const host = linuxHostNetwork();
  host.ensureForwarding(new Set([4, 6]), ['up0']);
  const links: string[] = [];
  for (const [index, { path }] of pods.entries()) {
    const network = networkOf(path, {
      containerId: `pod${String(index)}`,
      hostLinkName: `npl${String(index)}`,
      addresses: [V4_PODS[index]!, V6_PODS[index]!],
    });
    await linuxKernel().apply(network, never);
    links.push(network.hostLinkName);
  }
  await host.putTunnel(vxlan({ addresses: ['10.65.0.9', 'fd00:65::9'] }));
  const local = parseAddress('192.0.2.1');
  const addresses = [parseAddress('10.65.0.10')];
  const ipip = { name: 'tun1', mtu: 1480, addresses, encapsulation: { kind: 'ipip', local } } as const;
  const hasIpip = await host.putTunnel(ipip).then(
    () => true,
    (cause: unknown) => {
      if (!isNetplugError(cause, 'kernel/module-missing')) throw cause;
      return false;
    },
  );
  const onTunnel = { reach: 'on-link', device: 'tun0' } as const;
  const changes = [
    putRoute('10.65.0.0/26'),
    putRoute('fd00:65::/122'),
    putRoute('10.65.1.0/26', '10.65.1.1', onTunnel),
    putRoute('fd00:65:1::/122', 'fd00:65:1::1', onTunnel),
    putRoute('10.65.2.0/26', '192.0.2.2'),
    putRoute('10.65.3.0/26', '192.0.2.3', { reach: 'on-link', device: hasIpip ? 'tun1' : 'tun0' }),
  ];
  expect(await host.change(changes, never)).toEqual([]);
  return {
    netns,
    links,
    run: async (commands) => {
      for (const command of commands) await netns.exec('ip', ...command.replace('LINK', links[0]!).split(' '));
    },
    look: async () => {
      const found = await host.findOverruled(await listWantedPaths(host));
      return Object.fromEntries(
        found.map(({ path, by: { rule, table, type, device, destination } }) => {
          const words = [rule ?? 'no rule', table ?? 'no table', type === 'unicast' ? device : type];
          const what = destination === undefined ? [] : [formatCidr(destination)];
          return [formatAddress(path.address), [...words, ...what].join(' ')];
        }),
      );
    },
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
}

function each(addresses: readonly string[], by: string): Readonly<Record<string, string>> {
  return Object.fromEntries(addresses.map((address) => [address, by]));
}

const VPN_TABLE = ['route add default dev vpn0 table 52', '-6 route add default dev vpn0 table 52'];

describe('routes of netplug that packets do not take', () => {
  it.each<[string, readonly string[], Readonly<Record<string, string>>, readonly string[]]>([
    [
      'a rule for all packets',
      [...VPN_TABLE, 'rule add pref 5270 lookup 52'],
      each([...V4_PODS, ...V4_BLOCKS], '5270 52 vpn0 0.0.0.0/0'),
      ['rule delete pref 5270'],
    ],
    [
      'a rule for all IPv6 packets',
      [...VPN_TABLE, '-6 rule add pref 5270 lookup 52'],
      each([...V6_PODS, ...V6_BLOCKS], '5270 52 vpn0 ::/0'),
      ['-6 rule delete pref 5270'],
    ],
    [
      'a rule for packets of the range of pods',
      [...VPN_TABLE, 'rule add pref 100 from 10.65.0.0/16 lookup 52'],
      each([V4_PODS[1]!, ...V4_BLOCKS], '100 52 reverse path'),
      ['rule delete pref 100'],
    ],
    [
      'a rule for IPv6 packets of the range of pods',
      [...VPN_TABLE, '-6 rule add pref 100 from fd00::/16 lookup 52'],
      each([V6_PODS[1]!, ...V6_BLOCKS], '100 52 vpn0 ::/0'),
      ['-6 rule delete pref 100'],
    ],
    [
      'a rule that refuses packets',
      ['rule add pref 100 to 10.65.1.0/24 prohibit'],
      { '10.65.1.0': '100 no table prohibit' },
      ['rule delete pref 100'],
    ],
    [
      'a route that refuses packets in the table of a rule',
      ['route add unreachable default table 52', 'rule add pref 5270 lookup 52'],
      each([...V4_PODS, ...V4_BLOCKS], '5270 52 unreachable 0.0.0.0/0'),
      ['route delete unreachable default table 52'],
    ],
    [
      'a route of the same prefix and a better metric',
      ['route add 10.65.1.0/26 via 192.0.2.9 metric 100', 'route add 10.65.2.0/26 via 192.0.2.9'],
      { '10.65.1.0': 'no rule 254 up0 10.65.1.0/26', '10.65.2.0': 'no rule 254 up0 10.65.2.0/26' },
      ['route delete 10.65.1.0/26 metric 100', 'route delete 10.65.2.0/26 via 192.0.2.9'],
    ],
    [
      'a route that refuses packets, of a better metric',
      ['route add blackhole 10.65.1.0/26 metric 100'],
      { '10.65.1.0': 'no rule 254 blackhole 10.65.1.0/26' },
      ['route delete blackhole 10.65.1.0/26 metric 100'],
    ],
    [
      'a route to a single address',
      ['route add 10.65.1.0/32 dev vpn0', '-6 route add fd00:65::1/128 dev vpn0 metric 10'],
      { '10.65.1.0': 'no rule 254 vpn0 10.65.1.0/32', 'fd00:65::1': 'no rule 254 vpn0 fd00:65::1/128' },
      ['route delete 10.65.1.0/32', '-6 route delete fd00:65::1/128 dev vpn0'],
    ],
    [
      'an address of the host itself',
      ['address add 10.65.0.2/32 dev vpn0'],
      { '10.65.0.2': 'no rule 255 local 10.65.0.2/32' },
      ['address delete 10.65.0.2/32 dev vpn0'],
    ],
  ])('are found with %s, and no more when it goes', async (_what, harm, expected, undo) => {
    await using scene = await newScene();
    expect(await scene.look()).toEqual({});
    await scene.run(harm);
    expect(await scene.look()).toEqual(expected);
    await scene.run(undo);
    expect(await scene.look()).toEqual({});
  });

  it.each<[string, readonly string[]]>([
    [
      'rules for single pods, which chained plugins make',
      [
        ...VPN_TABLE,
        'rule add pref 100 from 10.65.0.1 lookup 52',
        'rule add pref 101 to 10.65.0.2 lookup 52',
        'rule add pref 102 iif LINK lookup 52',
        '-6 rule add pref 102 iif LINK lookup 52',
        'rule add pref 104 from 10.65.0.2 lookup 52',
        'rule add pref 103 from 10.65.0.1 to 10.65.2.0/24 prohibit',
      ],
    ],
    [
      'routes that BIRD of netplug has learned',
      [
        'route add 10.65.1.0/26 via 192.0.2.3 proto bird metric 8192',
        'route add 10.65.2.0/32 via 192.0.2.3 proto bird metric 8192',
      ],
    ],
    [
      'default routes and halves of all addresses',
      ['route add default via 192.0.2.254', 'route add 0.0.0.0/1 dev vpn0', '-6 route add default dev vpn0'],
    ],
    [
      'a VPN that leaves the main table before it, except for its default route',
      [
        ...VPN_TABLE,
        'route add default via 192.0.2.254',
        'rule add pref 32764 lookup main suppress_prefixlength 0',
        'rule add pref 32765 not fwmark 51820 lookup 52',
      ],
    ],
    [
      'rules for marked packets, for protocols and for other links',
      [
        ...VPN_TABLE,
        'rule add pref 100 fwmark 0x80000/0xff0000 lookup 52',
        'rule add pref 101 ipproto tcp dport 80 lookup 52',
        'rule add pref 102 iif vpn0 lookup 52',
        'rule add pref 103 oif vpn0 lookup 52',
      ],
    ],
    [
      'rules to tables that leave the packets to the main table',
      ['route add throw default table 53', 'rule add pref 100 lookup 53', 'rule add pref 101 lookup 99'],
    ],
    ['a route of the same hop', ['route add 10.65.2.0/26 via 192.0.2.2 metric 100']],
    ['a rule after the main table', [...VPN_TABLE, 'rule add pref 32800 lookup 52']],
    [
      'a route that is missing, while others lead further',
      [...VPN_TABLE, 'rule add pref 32800 lookup 52', 'route delete 10.65.0.1/32', 'route add default dev vpn0'],
    ],
    ['a link of a pod that is down', ['link set dev LINK down']],
    ['an address that a pod of the node has borrowed', ['route add 10.65.1.0/32 dev LINK']],
    ['an address that a tunnel of the node has borrowed', ['address add 10.65.1.0/32 dev tun0']],
  ])('are not found with %s', async (_what, commands) => {
    await using scene = await newScene();
    await scene.run(commands);
    expect(await scene.look()).toEqual({});
  });

  it('are looked up by the thousand in some milliseconds', async () => {
    await using scene = await newScene();
    const host = linuxHostNetwork();
    const blocks = Array.from({ length: 2000 }, (_, index) => {
      const [high, low] = [66 + (index >> 10), (index >> 2) & 255];
      return putRoute(`10.${String(high)}.${String(low)}.${String((index & 3) * 64)}/26`, '192.0.2.2');
    });
    expect(await host.change(blocks, never)).toEqual([]);
    await scene.run(['route add 10.67.8.0/26 via 192.0.2.9 metric 100']);
    const paths = await listWantedPaths(host);
    const start = performance.now();
    const found = await host.findOverruled(paths);
    console.log(`${String(paths.length)} paths looked up in ${(performance.now() - start).toFixed(0)} ms`);
    expect(found.map(({ path }) => formatAddress(path.address))).toEqual(['10.67.8.0']);
  });
});
