// What pods try to send to the host and in the name of others, with real packets that the host counts.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { NftPolicyFilter } from '../../src/dataplane/linux/nft-policy-filter.ts';
import { POD_TABLE, renderPodTable } from '../../src/routing/pod-table.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';
import { answerInside, askFrom } from '../support/tcp-echo.ts';

const signal = new AbortController().signal;
const scope = new AsyncDisposableStack();

let filter: NftPolicyFilter;
let host: TestNetns;
let one: TestNetns;
let two: TestNetns;

const HOST = { IPv4: '192.0.2.1', IPv6: '2001:db8::1' } as const;
const PODS = {
  one: { IPv4: '10.65.0.1', IPv6: 'fd00:65::1' },
  two: { IPv4: '10.65.0.2', IPv6: 'fd00:65::2' },
} as const;
/** Addresses that pod `one` has no right to: another pod's, the host's own, and one without a holder. */
const FOREIGN = {
  IPv4: [PODS.two.IPv4, HOST.IPv4, '203.0.113.7'],
  IPv6: [PODS.two.IPv6, HOST.IPv6, '2001:db8:7::7'],
} as const;

beforeAll(async () => {
  host = scope.use(await newNetns());
  const inside = enterNetns(host);
  scope.defer(() => {
    inside.leave();
  });
  filter = scope.use(NftPolicyFilter.open());
  await host.addAddress(`${HOST.IPv4}/32`, 'lo');
  await host.addAddress(`${HOST.IPv6}/128`, 'lo');
  one = await newPod('one');
  two = await newPod('two');
  scope.use(await answerInside(two, 'two'));
  // Before everything that could drop a packet, so that what is sent is known; and after, for what is let in.
  await host.exec(
    'nft',
    `table inet seen {
      chain sent { type filter hook prerouting priority -350; }
      chain received { type filter hook input priority 100; }
    }`,
  );
});

beforeEach(async () => {
  await filter.apply(renderPodTable('strict'), { signal });
  // As a host has it where a firewall or systemd cares for the setting of the links itself.
  await host.exec('sysctl', '-qw', 'net.ipv4.conf.nplone.rp_filter=0');
});

afterEach(async () => {
  await filter.remove(POD_TABLE, signal);
});

afterAll(async () => scope.disposeAsync());

describe.each(['IPv4', 'IPv6'] as const)('a pod that sends with a foreign %s address', (family) => {
  it.each(FOREIGN[family].map((address) => [address]))('does not reach the host with %s', async (address) => {
    expect(await sentAndReceived(family, address)).toEqual({ sent: true, received: false });
    await filter.apply(renderPodTable('off'), { signal });
    // The kernel itself refuses a packet in IPv4 that seems to come from the host.
    const isRefusedAnyway = address === HOST.IPv4;
    expect(await sentAndReceived(family, address)).toEqual({ sent: true, received: !isRefusedAnyway });
  });

  it('reaches the host and other pods with its own', async () => {
    expect(await sentAndReceived(family, PODS.one[family])).toEqual({ sent: true, received: true });
    expect(await one.ping(HOST[family])).toBe(true);
    expect(await askFrom(one, PODS.two[family])).toBe(`two ${PODS.one[family]}`);
    expect(await host.ping(PODS.one[family])).toBe(true);
  });
});

describe('without the table', () => {
  beforeEach(async () => {
    await filter.remove(POD_TABLE, signal);
  });

  it('a link that the plugin creates drops foreign IPv4 addresses by itself', async () => {
    await using pod = await newNetns();
    const network = networkOf(pod.path, { hostLinkName: 'nplthree', addresses: ['10.65.0.3'] });
    const [foreign] = FOREIGN.IPv4;
    for (const [sourceCheck, received] of [
      ['strict', false],
      ['off', true],
    ] as const) {
      await linuxKernel({ sourceCheck }).apply(network, signal);
      expect(await sentAndReceived('IPv4', foreign, { pod, link: 'nplthree' })).toEqual({ sent: true, received });
      expect(await pod.ping(HOST.IPv4)).toBe(true);
      await linuxKernel().remove('nplthree', network.owner);
    }
  });

  it('a link that the plugin creates does not lead to the loopback addresses of the host', async () => {
    using _server = await answerInside(host, 'host');
    await using pod = await newPodThatAsksForLoopback('nplfour', '10.65.0.4');
    await expect(askFrom(pod, '127.0.0.1')).rejects.toThrow('aborted');
    // The oracle of the test: it is this setting that leads there.
    await host.exec('sysctl', '-qw', 'net.ipv4.conf.nplfour.route_localnet=1');
    expect(await askFrom(pod, '127.0.0.1')).toBe('host 10.65.0.4');
  });
});

describe('the neighbours of IPv6', () => {
  it('are resolved with an empty neighbour table', async () => {
    await one.exec('ip', 'neigh', 'flush', 'dev', 'eth0');
    await one.exec('ip', 'neigh', 'del', 'fe80::ecee:eeff:feee:eeee', 'dev', 'eth0').catch(() => '');
    await host.exec('ip', 'neigh', 'flush', 'dev', 'nplone');
    expect(await one.ping('fe80::ecee:eeff:feee:eeee%eth0')).toBe(true);
    expect(await one.ping(HOST.IPv6)).toBe(true);
    await host.exec('ip', 'neigh', 'flush', 'dev', 'nplone');
    expect(await host.ping(PODS.one.IPv6)).toBe(true);
  });

  it('receive a solicitation without a source address', async () => {
    await one.exec('sysctl', '-qw', 'net.ipv6.conf.eth0.accept_dad=1', 'net.ipv6.conf.eth0.dad_transmits=1');
    const seen = ['ip6', 'saddr', '::', 'icmpv6', 'type', 'nd-neighbor-solicit'];
    expect(
      await counted(seen, 'nplone', async () => {
        // Of the multicast group that the gateway listens to.
        await one.exec('ip', 'address', 'add', 'fe80::77:eeee:eeee/64', 'dev', 'eth0');
        const isTentative = async () => (await one.exec('ip', 'address', 'show', 'dev', 'eth0')).includes('tentative');
        await until(async () => !(await isTentative()), 'the address is in use');
      }),
    ).toEqual({ sent: true, received: true });
    await one.exec('ip', 'address', 'del', 'fe80::77:eeee:eeee/64', 'dev', 'eth0');
  });
});

describe('the loopback addresses of the host', () => {
  it('are not reached by a pod even where route_localnet is on, as portmap sets it', async () => {
    using _server = await answerInside(host, 'host');
    await using pod = await newPodThatAsksForLoopback('nplfive', '10.65.0.5');
    await host.exec('sysctl', '-qw', 'net.ipv4.conf.nplfive.route_localnet=1', 'net.ipv4.conf.nplfive.rp_filter=0');
    await expect(askFrom(pod, '127.0.0.1')).rejects.toThrow('aborted');
    expect(await sentAndReceived('IPv4', '127.0.0.1', { pod, link: 'nplfive' })).toEqual({
      sent: true,
      received: false,
    });
    await filter.apply(renderPodTable('off'), { signal });
    await expect(askFrom(pod, '127.0.0.1')).rejects.toThrow('aborted');
  });

  it('lead to a pod where the host translates them, as for a host port', async () => {
    await host.exec('sysctl', '-qw', 'net.ipv4.conf.npltwo.route_localnet=1');
    await host.exec(
      'nft',
      `table ip ports {
        chain output { type nat hook output priority -100; ip daddr 127.0.0.1 tcp dport 7007 dnat to ${PODS.two.IPv4}; }
        chain post { type nat hook postrouting priority 100; ip saddr 127.0.0.1 oifname "npltwo" masquerade; }
      }`,
    );
    expect(await askFrom(host, '127.0.0.1')).toBe(`two ${HOST.IPv4}`);
    await host.exec('nft', 'delete', 'table', 'ip', 'ports');
  });

  it('are reached by a pod where the host translates another address to them', async () => {
    using _server = await answerInside(host, 'host');
    await host.exec('sysctl', '-qw', 'net.ipv4.conf.nplone.route_localnet=1');
    await host.exec(
      'nft',
      `table ip metadata {
        chain pre { type nat hook prerouting priority -100; ip daddr 169.254.169.254 dnat to 127.0.0.1; }
      }`,
    );
    expect(await askFrom(one, '169.254.169.254')).toBe(`host ${PODS.one.IPv4}`);
    await host.exec('nft', 'delete', 'table', 'ip', 'metadata');
  });
});

describe('a pod with two interfaces', () => {
  it('replies through the interface of the request', async () => {
    await using pod = await newNetns();
    const first = networkOf(pod.path, { hostLinkName: 'nplsix', addresses: ['10.65.0.6', 'fd00:65::6'] });
    const second = networkOf(pod.path, { hostLinkName: 'nplseven', addresses: ['10.65.0.7', 'fd00:65::7'] });
    await linuxKernel().apply(first, signal);
    await linuxKernel().apply({ ...second, podLinkName: 'eth1' }, signal);
    for (const address of ['10.65.0.6', 'fd00:65::6', '10.65.0.7', 'fd00:65::7'])
      expect([address, await host.ping(address), await two.ping(address)]).toEqual([address, true, true]);
    for (const [link, address] of [
      ['nplsix', '10.65.0.7'],
      ['nplseven', '10.65.0.6'],
    ] as const)
      expect(await sentAndReceived('IPv4', address, { pod, link })).toEqual({ sent: false, received: false });
    await linuxKernel().remove('nplseven', second.owner);
    expect(await host.ping('10.65.0.6')).toBe(true);
  });
});

async function newPod(name: 'one' | 'two'): Promise<TestNetns> {
  const pod = scope.use(await newNetns());
  const addresses = Object.values(PODS[name]);
  await linuxKernel().apply(networkOf(pod.path, { hostLinkName: `npl${name}`, addresses }), signal);
  return pod;
}

/** Sends what is for 127.0.0.1 to the host, as root of a pod can. */
async function newPodThatAsksForLoopback(hostLinkName: string, address: string): Promise<TestNetns> {
  const pod = await newNetns();
  await linuxKernel().apply(networkOf(pod.path, { hostLinkName, addresses: [address] }), signal);
  await pod.exec('sysctl', '-qw', 'net.ipv4.conf.eth0.route_localnet=1');
  await pod.exec('ip', 'address', 'del', '127.0.0.1/8', 'dev', 'lo');
  await pod.exec('ip', 'route', 'add', '127.0.0.1/32', 'via', '169.254.1.1', 'dev', 'eth0', 'src', address);
  return pod;
}

/** What becomes of a packet from the pod to the host with that source. */
async function sentAndReceived(
  family: 'IPv4' | 'IPv6',
  source: string,
  { pod, link } = { pod: one, link: 'nplone' },
): Promise<{ readonly sent: boolean; readonly received: boolean }> {
  const isV4 = family === 'IPv4';
  const cidr = isV4 ? `${source}/32` : `${source}/128`;
  const own = (await pod.exec('ip', '-o', 'address', 'show')).includes(` ${cidr} `);
  if (!own) await pod.addAddress(cidr, 'lo');
  // Which the pod would take for itself otherwise.
  const destination = source === HOST[family] ? { IPv4: '192.0.2.2', IPv6: '2001:db8::2' }[family] : HOST[family];
  if (destination !== HOST[family]) await host.addAddress(isV4 ? `${destination}/32` : `${destination}/128`, 'lo');
  try {
    return await counted([isV4 ? 'ip' : 'ip6', 'saddr', source], link, async () => {
      await pod.exec('ping', '-n', '-c', '1', '-W', '1', '-I', source, destination).catch(() => undefined);
    });
  } finally {
    if (!own) await pod.exec('ip', 'address', 'del', cidr, 'dev', 'lo');
    if (destination !== HOST[family])
      await host.exec('ip', 'address', 'del', isV4 ? `${destination}/32` : `${destination}/128`, 'dev', 'lo');
  }
}

/** Which of these packets come to the host by the link meanwhile, and which get in. */
async function counted(
  match: readonly string[],
  link: string,
  during: () => Promise<void>,
): Promise<{ readonly sent: boolean; readonly received: boolean }> {
  for (const chain of ['sent', 'received']) {
    await host.exec('nft', 'flush', 'chain', 'inet', 'seen', chain);
    await host.exec('nft', 'add', 'rule', 'inet', 'seen', chain, 'iifname', link, ...match, 'counter');
  }
  await during();
  const isAny = async (chain: string): Promise<boolean> =>
    !(await host.exec('nft', 'list', 'chain', 'inet', 'seen', chain)).includes('packets 0 ');
  return { sent: await isAny('sent'), received: await isAny('received') };
}
