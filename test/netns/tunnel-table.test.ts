// Who may send through the tunnels of a node: real VXLAN devices of nodes, of a stranger beside them, and of a pod.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { addressBytes, type Family, parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { macFromHash } from '../../src/net/mac.ts';
import { POD_TABLE, renderPodTable } from '../../src/routing/pod-table.ts';
import { renderTunnelTable, TUNNEL_TABLE, type TunnelledPools } from '../../src/routing/tunnel-table.ts';
import { type TunnelKind, TUNNELS, VXLAN_PORT, VXLAN_VNI } from '../../src/routing/tunnels.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { isReceived, sendVxlan, vxlanFrame } from '../support/vxlan-frames.ts';
import { within } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();

/** The node that is looked at, another one, a machine of no cluster on the same network, and a pod of the node. */
let node: TestNetns;
let other: TestNetns;
let stranger: TestNetns;
let pod: TestNetns;

interface Addresses {
  readonly node: string;
  readonly other: string;
  readonly stranger: string;
  readonly pod: string;
}

const ADDRESSES: Readonly<Record<Family, Addresses>> = {
  4: { node: '198.51.100.1', other: '198.51.100.2', stranger: '198.51.100.9', pod: '10.65.0.1' },
  6: { node: '2001:db8:1::1', other: '2001:db8:1::2', stranger: '2001:db8:1::9', pod: 'fd00:65::1' },
};
const KIND: Readonly<Record<Family, TunnelKind>> = { 4: 'vxlan4', 6: 'vxlan6' };
const MAC = macFromHash(Buffer.alloc(32, 7));
const FAMILIES = [4, 6] as const;

beforeAll(async () => {
  const bridge = scope.use(await newNetns());
  [node, other, stranger, pod] = [
    scope.use(await newNetns()),
    scope.use(await newNetns()),
    scope.use(await newNetns()),
    scope.use(await newNetns()),
  ];
  const inside = enterNetns(node);
  scope.defer(() => {
    inside.leave();
  });
  await bridge.exec('ip', 'link', 'add', 'name', 'lan', 'type', 'bridge');
  await bridge.exec('ip', 'link', 'set', 'dev', 'lan', 'up');
  for (const [name, host] of Object.entries({ node, other, stranger })) {
    await bridge.exec('ip', 'link', 'add', 'name', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host.name);
    await bridge.exec('ip', 'link', 'set', 'dev', name, 'master', 'lan', 'up');
    for (const family of FAMILIES) {
      const address = ADDRESSES[family][name as keyof Addresses];
      await host.addAddress(`${address}/${family === 4 ? '24' : '64'}`, 'eth0');
    }
    await host.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
    await host.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1');
  }
  const addresses = FAMILIES.map((family) => ADDRESSES[family].pod);
  await linuxKernel().apply(networkOf(pod.path, { hostLinkName: 'nplone', addresses }), signal);
  for (const [host, own] of [
    [node, 'node'],
    [other, 'other'],
  ] as const)
    await within(host, async () => {
      for (const family of FAMILIES)
        await linuxHostNetwork().putTunnel({
          name: TUNNELS[KIND[family]].device,
          mtu: 1400,
          addresses: [],
          encapsulation: {
            kind: 'vxlan',
            mac: MAC,
            vni: VXLAN_VNI,
            port: VXLAN_PORT,
            local: parseAddress(ADDRESSES[family][own]),
            uplink: 'eth0',
          },
        });
    });
  // As `natOutgoing` has it, for what the pod sends to other nodes.
  await node.exec(
    'nft',
    'table inet nat { chain post { type nat hook postrouting priority 100; iifname "nplone" oifname "eth0" masquerade; }; }',
  );
});

const NODES = FAMILIES.flatMap((family) => [ADDRESSES[family].node, ADDRESSES[family].other]);

beforeEach(async () => {
  for (const host of [node, other]) await filterOn(host, NODES);
});

afterEach(async () => {
  for (const host of [node, other]) await filterOn(host, undefined);
});

afterAll(async () => scope.disposeAsync());

describe.each(FAMILIES)('a packet in VXLAN over IPv%d', (family) => {
  const at = ADDRESSES[family];

  it('is accepted from another node', async () => {
    expect(await isTaken(family, { from: other, by: node, to: at.node })).toBe(true);
  });

  it('is not accepted from an unknown host', async () => {
    expect(await isTaken(family, { from: stranger, by: node, to: at.node })).toBe(false);
    await filterOn(node, undefined);
    expect(await isTaken(family, { from: stranger, by: node, to: at.node })).toBe(true);
  });

  it('is accepted from a new node at once, and no longer from a removed node', async () => {
    await filterOn(node, [at.node, at.other, at.stranger]);
    expect(await isTaken(family, { from: stranger, by: node, to: at.node })).toBe(true);
    await filterOn(node, [at.node]);
    expect(await isTaken(family, { from: other, by: node, to: at.node })).toBe(false);
  });

  it('is not accepted from a pod of the node, not even with the address of another node', async () => {
    expect(await isTaken(family, { from: pod, by: node, to: at.node })).toBe(false);
    const [link, length] = [family === 4 ? '-4' : '-6', family === 4 ? '32' : '128'];
    await pod.addAddress(`${at.other}/${length}`, 'lo');
    await node.exec('sysctl', '-qw', 'net.ipv4.conf.nplone.rp_filter=0');
    expect(await isTaken(family, { from: pod, by: node, to: at.node, source: at.other })).toBe(false);
    await filterOn(node, undefined);
    expect(await isTaken(family, { from: pod, by: node, to: at.node, source: at.other })).toBe(true);
    await pod.exec('ip', link, 'address', 'del', `${at.other}/${length}`, 'dev', 'lo');
  });

  it("is not forwarded from a pod to another node, which would accept it as sent by the pod's node", async () => {
    expect(await isTaken(family, { from: pod, by: other, to: at.other })).toBe(false);
    await filterOn(node, undefined);
    expect(await isTaken(family, { from: pod, by: other, to: at.other })).toBe(true);
  });

  it('is not filtered when it has another VNI', async () => {
    await node.exec('ip', 'link', 'add', 'vx7', 'type', 'vxlan', 'id', '7', 'dstport', '4789', 'local', at.node);
    await node.exec('ip', 'link', 'set', 'dev', 'vx7', 'up');
    expect(await isTaken(family, { from: stranger, by: node, to: at.node, vni: 7, device: 'vx7' })).toBe(true);
    await node.exec('ip', 'link', 'del', 'vx7');
  });
});

describe('a packet in IP-in-IP', () => {
  it('is accepted from another node, and not from an unknown host', async () => {
    await node.exec('nft', 'table inet seen { chain input { type filter hook input priority 100; }; }');
    const isSeen = async (from: TestNetns): Promise<boolean> => {
      await node.exec('nft', 'flush', 'chain', 'inet', 'seen', 'input');
      await node.exec('nft', 'add', 'rule', 'inet', 'seen', 'input', 'ip', 'protocol', '4', 'counter');
      const inner = Buffer.alloc(20, 0).fill(0x45, 0, 1).toString('hex');
      await from.exec('perl', '-MSocket=:all', '-e', SEND_IPIP, ADDRESSES[4].node, inner);
      return !(await node.exec('nft', 'list', 'chain', 'inet', 'seen', 'input')).includes('packets 0 ');
    };
    expect([await isSeen(other), await isSeen(stranger)]).toEqual([true, false]);
    await filterOn(node, undefined);
    expect([await isSeen(other), await isSeen(stranger)]).toEqual([true, true]);
  });
});

describe.each(FAMILIES)('a packet for a pod over IPv%d that comes beside the tunnel', (family) => {
  const at = ADDRESSES[family];
  const remote = family === 4 ? '10.65.1.5' : 'fd00:65:1::5';
  const [link, block] = family === 4 ? ['-4', '10.65.1.0/26'] : ['-6', 'fd00:65:1::/64'];
  const pool = family === 4 ? '10.65.0.0/16' : 'fd00:65::/32';

  beforeEach(async () => {
    await node.exec('ip', link, 'route', 'replace', block, 'dev', TUNNELS[KIND[family]].device);
    await stranger.exec('ip', link, 'route', 'replace', at.pod, 'via', at.node);
    await node.exec('sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.eth0.rp_filter=0');
    await filterOn(node, NODES, [{ by: KIND[family], pools: [parseCidr(pool)] }]);
    using filter = await within(node, async () => NftPolicyFilter.open());
    await filter.apply(renderPodTable('strict'), { signal });
  });
  afterEach(async () => {
    await node.exec('nft', 'delete', 'table', 'inet', POD_TABLE);
  });

  it('is dropped when a pod of another node would have sent it through the tunnel', async () => {
    expect(await passes(remote)).toBe(false);
    await expect.poll(async () => passes(at.stranger)).toBe(true);
    // The pool has another mode, or had one a moment ago.
    await filterOn(node, NODES, []);
    await expect.poll(async () => passes(remote)).toBe(true);
  });

  it('is dropped between subnets alone when the pool wants the tunnel there alone', async () => {
    const across = (from: string): TunnelledPools => ({
      by: KIND[family],
      pools: [parseCidr(pool)],
      from: [parseCidr(from)],
    });
    await filterOn(node, NODES, [across(pool)]);
    expect(await passes(remote)).toBe(false);
    await filterOn(node, NODES, [across(family === 4 ? '10.66.0.0/16' : 'fd00:66::/32')]);
    await expect.poll(async () => passes(remote)).toBe(true);
  });

  it('is dropped with the address of a pod of this node', async () => {
    const own = family === 4 ? '10.65.0.9' : 'fd00:65::9';
    await node.exec('ip', link, 'route', 'replace', own, 'dev', 'nplone');
    expect(await passes(own)).toBe(false);
    using filter = await within(node, async () => NftPolicyFilter.open());
    await filter.apply(renderPodTable('off'), { signal });
    await expect.poll(async () => passes(own)).toBe(true);
    await node.exec('ip', link, 'route', 'del', own, 'dev', 'nplone');
  });

  it('passes when the node translates its destination, to which no tunnel leads', async () => {
    const protocol = family === 4 ? 'ip' : 'ip6';
    await node.exec(
      'nft',
      `table inet published { chain pre { type nat hook prerouting priority -100; iifname "eth0" ${protocol} daddr ${at.node} dnat ${protocol} to ${at.pod}; }; }`,
    );
    await expect.poll(async () => passes(remote, at.node)).toBe(true);
    await node.exec('nft', 'delete', 'table', 'inet', 'published');
  });

  /** Reports whether the node passes on to the pod what the stranger sends with the source address. */
  async function passes(source: string, to: string = at.pod): Promise<boolean> {
    const isOwn = source === at.stranger;
    const host = `${source}/${family === 4 ? '32' : '128'}`;
    if (!isOwn) await stranger.addAddress(host, 'lo');
    await node.exec('nft', 'table inet seen { chain passed { type filter hook postrouting priority 300; }; }');
    // Not the solicitations of the node.
    const echo = `${family === 4 ? 'icmp' : 'icmpv6'} type echo-request`;
    await node.exec('nft', `add rule inet seen passed oifname "nplone" ${echo} counter`);
    await stranger.exec('ping', '-n', '-c', '3', '-i', '0.2', '-W', '1', '-I', source, to).catch(() => undefined);
    const seen = await node.exec('nft', 'list', 'chain', 'inet', 'seen', 'passed');
    await node.exec('nft', 'delete', 'table', 'inet', 'seen');
    if (!isOwn) await stranger.exec('ip', link, 'address', 'del', host, 'dev', 'lo');
    return !seen.includes('packets 0 ');
  }
});

describe('a fragmented packet in VXLAN over IPv6', () => {
  it('is not accepted from an unknown host, even in small fragments', async () => {
    // Translation has packets put together before they are filtered.
    await node.exec('nft', 'delete', 'table', 'inet', 'nat');
    const pieces = piecesOf(vxlanFrame(VXLAN_VNI)).map((piece) => piece.toString('hex'));
    const send = async (): Promise<void> => {
      await stranger.exec('perl', '-MSocket=:all', '-e', SEND_RAW, ADDRESSES[6].node, ...pieces);
    };
    expect(await isReceived(node, TUNNELS.vxlan6.device, send)).toBe(false);
    await filterOn(node, undefined);
    expect(await isReceived(node, TUNNELS.vxlan6.device, send)).toBe(true);
  });
});

/** Undefined takes the filter away. */
async function filterOn(
  host: TestNetns,
  nodes: readonly string[] | undefined,
  tunnelled: readonly TunnelledPools[] = [],
): Promise<void> {
  using filter = await within(host, async () => NftPolicyFilter.open());
  const table = renderTunnelTable({
    tunnels: ['vxlan4', 'vxlan6', 'ipip4'],
    nodes: (nodes ?? []).map(parseAddress),
    tunnelled,
  });
  if (nodes === undefined || table === undefined) await filter.remove(TUNNEL_TABLE, signal);
  else await filter.apply(table, { signal });
}

interface Sending {
  readonly from: TestNetns;
  readonly by: TestNetns;
  readonly to: string;
  readonly source?: string;
  readonly vni?: number;
  readonly device?: string;
}

/** Reports whether the VXLAN device of the named host receives a packet that a program sends there. */
async function isTaken(
  family: Family,
  { by, device = TUNNELS[KIND[family]].device, ...sending }: Sending,
): Promise<boolean> {
  return isReceived(by, device, async () => sendVxlan(sending));
}

const SEND_IPIP = `my ($to, $packet) = @ARGV;
  socket(my $socket, AF_INET, SOCK_RAW, 4) or die $!;
  send($socket, pack("H*", $packet), 0, pack_sockaddr_in(0, inet_aton($to))) or die $!`;

const SEND_RAW = `my ($to, @packets) = @ARGV;
  socket(my $socket, AF_INET6, SOCK_RAW, 255) or die $!;
  for (@packets) { send($socket, pack("H*", $_), 0, pack_sockaddr_in6(0, inet_pton(AF_INET6, $to))) or die $! }`;

/** Two IPv6 packets of the stranger that are one of UDP; the first ends with the header of UDP. */
function piecesOf(payload: Buffer): readonly Buffer[] {
  const ends = [ADDRESSES[6].stranger, ADDRESSES[6].node].map((text) => addressBytes(parseAddress(text)));
  const udp = Buffer.concat([Buffer.alloc(8), payload]);
  udp.writeUInt16BE(40_000, 0);
  udp.writeUInt16BE(VXLAN_PORT, 2);
  udp.writeUInt16BE(udp.length, 4);
  udp.writeUInt16BE(checksum(Buffer.concat([...ends, Buffer.from([0, 0, 0, udp.length, 0, 0, 0, 17]), udp])), 6);
  return [udp.subarray(0, 8), udp.subarray(8)].map((part, index) => {
    const header = Buffer.from([0x60, 0, 0, 0, 0, 8 + part.length, 44, 64]);
    const fragment = Buffer.from([17, 0, 0, index === 0 ? 1 : 8, 0, 0, 0, 77]);
    return Buffer.concat([header, ...ends, fragment, part]);
  });
}

/** Of the Internet, over an even number of bytes. */
function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 0x10000);
  return ~sum & 0xffff;
}
