// Other hands on the node: what is the agent's is repaired, what is not stays as it is.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Fabric, type FabricNode, type FabricPod, startFabric } from '../support/fabric.ts';
import { receiveInside, pairsOf, pingAll, transfer, expectReached } from '../support/traffic.ts';
import { NETPLUGCTL } from '../support/built.ts';
import { until } from '../support/until.ts';

const REPAIR_MS = 10_000;
/** For what nothing tells the agent of: it looks every ten seconds. */
const LOOK_MS = 30_000;

let fabric: Fabric;
let n1: FabricNode;
let pods: FabricPod[];
let foreign: string;
beforeAll(async () => {
  fabric = await startFabric();
  n1 = fabric.node('n1');
  await makeForeign(n1);
  foreign = await foreignOf(n1);
  await fabric.setPools({ vxlanMode: 'Always', natOutgoing: true });
  await fabric.startAgents();
  pods = await fabric.podOnEach();
  await expectReached(pairsOf(pods), () => fabric.logs());
});
afterAll(async () => fabric?.[Symbol.asyncDispose]());

const routesText = async (): Promise<string> =>
  JSON.stringify((await n1.routes()).map(({ dst, dev, gateway }) => `${dst} ${dev} ${gateway}`).toSorted());

describe('the agent repairs within seconds', () => {
  it.each<[string, readonly string[][]]>([
    [
      'routes that another program deletes',
      [4, 6].map((family) => ['ip', `-${String(family)}`, 'route', 'flush', 'proto', '118']),
    ],
    [
      'neighbours that another program deletes',
      [['ip', 'neighbour', 'flush', 'nud', 'permanent', 'dev', 'vxlan.netplug']],
    ],
    [
      'VXLAN devices that another program deletes',
      ['', '6'].map((family) => ['ip', 'link', 'delete', 'dev', `vxlan${family}.netplug`]),
    ],
    [
      'VXLAN devices that another program sets down',
      ['', '6'].map((family) => ['ip', 'link', 'set', 'dev', `vxlan${family}.netplug`, 'down']),
    ],
    ['addresses that another program deletes', [['ip', 'address', 'flush', 'dev', 'vxlan.netplug']]],
  ])('%s', async (_, commands) => {
    const before = await routesText();
    for (const command of commands) await n1.machine.exec(...(command as [string, ...string[]]));
    await until(
      async () => (await routesText()) === before,
      () => `routes are as before; the agent says:\n${n1.agent().log().slice(-3000)}`,
      REPAIR_MS,
    );
    await expectReached(pairsOf([...pods, n1]));
    expect(await routesText()).toBe(before);
  });
});

describe('the agent restores as soon as the kernel reports it', () => {
  it.each([
    'ipv4/conf/vxlan.netplug/forwarding',
    'ipv4/conf/vxlan.netplug/rp_filter',
    'ipv4/conf/eth0/forwarding',
    'ipv4/conf/POD/forwarding',
    'ipv4/conf/POD/proxy_arp',
    'ipv6/conf/POD/proxy_ndp',
  ])('net/%s', async (name) => {
    const links = (await n1.machine.host.ip('link')).map(({ ifname }) => String(ifname));
    const setting = `net/${name.replace('POD', links.find((link) => link.startsWith('npl')) ?? 'none')}`;
    const read = async (): Promise<string> => n1.machine.exec('sysctl', '-n', setting);
    const before = await read();
    await n1.machine.exec('sysctl', '-qw', `${setting}=0`);
    await until(async () => (await read()) === before, `${setting} is ${before}`, REPAIR_MS);
    await expectReached(pairsOf([...pods, n1]));
  });
});

describe('the agent names what goes before its routes, and no more when it is gone', () => {
  const askCtl = async (...argv: readonly string[]): Promise<string> => {
    const env = { ...n1.places, DATASTORE_TYPE: 'kvv3', KV_ENDPOINTS: n1.etcdUrl };
    return (await n1.machine.run([NETPLUGCTL, ...argv], { env })).stdout;
  };

  // Its exit status is 1 while there are problems.
  const nodeStatus = async (): Promise<string> => askCtl('node', 'status', '--socket', n1.machine.socket);

  it.each<[string, string, readonly string[], readonly string[]]>([
    [
      'a rule before the main table',
      'routing rule 5270 chooses table 52',
      [
        'route add default dev vxlan.other table 52',
        'route add throw 192.0.2.0/24 table 52',
        'rule add pref 5270 lookup 52',
      ],
      ['rule delete pref 5270', 'route flush table 52'],
    ],
    [
      'a route of another program',
      'of another program goes before that of netplug',
      ['route add BLOCK via 192.0.2.99 dev eth0 proto 80 onlink'],
      ['route delete BLOCK via 192.0.2.99 dev eth0'],
    ],
  ])('%s', async (_, sentence, harm, undo) => {
    const block = String((await n1.routes()).find(({ dev }) => dev === 'vxlan.netplug')?.['dst']);
    const run = async (commands: readonly string[]): Promise<void> => {
      for (const each of commands) await n1.machine.exec('ip', ...each.replace('BLOCK', block).split(' '));
    };
    expect(await nodeStatus()).not.toContain(sentence);
    await run(harm);
    expect(await pingAll(pairsOf(pods))).not.toEqual([]);
    await until(async () => (await nodeStatus()).includes(sentence), sentence, LOOK_MS, 500);
    expect(await askCtl('doctor', '--node', '--socket', n1.machine.socket)).toContain(sentence);
    const inBlock = pods.map(({ addresses }) => addresses.ipv4).map(async (address) => askCtl('why', address));
    expect((await Promise.all(inBlock)).filter((said) => said.includes(sentence))).not.toEqual([]);
    await run(undo);
    await until(async () => !(await nodeStatus()).includes(sentence), `no more: ${sentence}`, LOOK_MS, 500);
    await expectReached(pairsOf(pods));
  });
});

describe('the agent repairs at its next resync at the latest', () => {
  it('forwarding and translation that another program removes', async () => {
    using _ = await receiveInside(fabric.world);
    const seenFrom = async (): Promise<string> =>
      (await transfer(pods[0]!, fabric.world.addresses.ipv4, 1).catch(() => ({ seenFrom: 'nowhere' }))).seenFrom;
    expect(await seenFrom()).toBe(n1.addresses.ipv4);
    await n1.machine.exec('sysctl', '-q', '-w', 'net.ipv4.ip_forward=0', 'net.ipv6.conf.all.forwarding=0');
    await n1.machine.exec('nft', 'delete', 'table', 'inet', 'netplug-nat');
    await until(
      async () => (await seenFrom()) === n1.addresses.ipv4,
      'pods have the address of the node',
      LOOK_MS,
      500,
    );
    await until(async () => (await pingAll(pairsOf(pods))).length === 0, 'pods reach each other', LOOK_MS, 500);
    expect(await n1.machine.exec('sysctl', '-n', 'net.ipv4.ip_forward')).toBe('1\n');
  });
});

describe('configuration of other programs', () => {
  it('stays unchanged while the agent starts, changes modes and exits', async () => {
    expect(await foreignOf(n1)).toBe(foreign);
    for (const vxlanMode of ['CrossSubnet', 'Never', 'Always']) {
      await fabric.setPools({ vxlanMode, natOutgoing: false });
      await until(
        async () => (await n1.wayTo(pods[1]!.addresses.ipv4)) === (vxlanMode === 'Always' ? 'vxlan.netplug' : 'eth0'),
        vxlanMode,
      );
      expect(await foreignOf(n1)).toBe(foreign);
    }
    await n1.agent().stop();
    expect(await foreignOf(n1)).toBe(foreign);
  });
});

const FOREIGN = `
ip link add name vxlan.other type vxlan id 77 dstport 4790 dev eth0 nolearning
ip address add 10.99.7.1/24 dev vxlan.other
ip link set dev vxlan.other up
ip neighbour add 10.99.7.2 lladdr 02:00:00:00:00:02 dev vxlan.other nud permanent
bridge fdb append 02:00:00:00:00:02 dev vxlan.other dst 192.0.2.12
ip route add 10.99.0.0/24 via 192.0.2.12 proto static metric 4096
ip route add 10.65.255.0/26 via 192.0.2.12 proto static
ip route add blackhole 10.99.1.0/24 table 118
ip -6 route add fd00:99::/64 via fd00:a::c proto static
ip rule add from 10.99.0.0/16 lookup 118 priority 1180
nft add table inet foreign
nft add chain inet foreign postrouting '{ type nat hook postrouting priority srcnat; }'
nft add rule inet foreign postrouting ip saddr 10.99.0.0/16 masquerade
nft add table ip netplug-nat
`;

async function makeForeign({ machine }: FabricNode): Promise<void> {
  await machine.exec('sh', '-ec', FOREIGN);
}

/** All of it, as text. */
async function foreignOf({ machine }: FabricNode): Promise<string> {
  const script = [
    'ip -d link show dev vxlan.other | grep -v "link/"',
    'ip address show dev vxlan.other | grep inet.*10.99',
    'ip neighbour show nud permanent dev vxlan.other',
    'bridge fdb show dev vxlan.other',
    'ip route show table all proto static',
    'ip -6 route show proto static',
    'ip route show table 118',
    'ip rule',
    'nft list table inet foreign',
    'nft list table ip netplug-nat',
  ];
  return machine.exec('sh', '-ec', script.join('\n'));
}
