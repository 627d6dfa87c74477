// Real links and real packets: what only a kernel can say about the network of a pod. `ip -j` is the oracle.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import type { PodNetwork } from '../../src/dataplane/kernel.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const signal = new AbortController().signal;
const kernel = linuxKernel();
/** The first packet must not be lost. On a busy machine its answer may be late. */
const LATE_S = 20;
let host: TestNetns;
let inside: ReturnType<typeof enterNetns>;

beforeAll(async () => {
  host = await newNetns();
  inside = enterNetns(host);
  // A host has an address of its own, or it could not be the source of a packet.
  await host.addAddress('192.0.2.1/32', 'lo');
  await host.addAddress('2001:db8::1/128', 'lo');
});

afterAll(async () => {
  inside.leave();
  await host[Symbol.asyncDispose]();
});

/** A pod whose network goes when the scope ends, with the host left as it was. */
async function newPod(variation: Parameters<typeof networkOf>[1] = {}): Promise<TestNetns & { network: PodNetwork }> {
  const netns = await newNetns();
  const network = networkOf(netns.path, variation);
  return {
    ...netns,
    network,
    [Symbol.asyncDispose]: async () => {
      await kernel.remove(network.hostLinkName, network.owner);
      await netns[Symbol.asyncDispose]();
    },
  };
}

describe('packets of a pod', () => {
  it('reach the IPv6 gateway and return, from the first packet on', async () => {
    await using pod = await newPod();
    await kernel.apply(pod.network, signal);
    expect(await pod.pingOnce('fe80::ecee:eeff:feee:eeee%eth0', LATE_S)).toBe(true);
  });

  it('pass as soon as apply returns, however busy the kernel is with other links', async () => {
    for (let round = 0; round < 20; round += 1) {
      await using pod = await newPod();
      await kernel.apply(pod.network, signal);
      const [onHost] = await host.ip('link', 'show', 'dev', pod.network.hostLinkName);
      const [inPod] = await pod.ip('link', 'show', 'dev', 'eth0');
      expect([onHost?.['operstate'], inPod?.['operstate']]).toEqual(['UP', 'UP']);
    }
  });

  it('reach the host in both families and the host reaches the pod', async () => {
    await using pod = await newPod();
    await kernel.apply(pod.network, signal);
    expect(await pod.pingOnce('192.0.2.1', LATE_S)).toBe(true);
    expect(await pod.pingOnce('2001:db8::1', LATE_S)).toBe(true);
    expect(await host.pingOnce('10.65.0.1', LATE_S)).toBe(true);
    expect(await host.pingOnce('fd00:65::1', LATE_S)).toBe(true);
  });

  it('reach another pod through the host in both families, though the host as a whole does not forward', async () => {
    await using one = await newPod();
    await using two = await newPod({ hostLinkName: 'npl2', addresses: ['10.65.0.2', 'fd00:65::2'] });
    await kernel.apply(one.network, signal);
    await kernel.apply(two.network, signal);
    expect(await one.pingOnce('10.65.0.2', LATE_S)).toBe(true);
    expect(await one.pingOnce('fd00:65::2', LATE_S)).toBe(true);
    expect(await two.pingOnce('10.65.0.1', LATE_S)).toBe(true);
    expect(await two.pingOnce('fd00:65::1', LATE_S)).toBe(true);
    expect((await host.exec('sysctl', '-n', 'net.ipv4.ip_forward')).trim()).toBe('0');
  });

  it('find the gateway by proxy ARP when the neighbour entry is gone', async () => {
    await using pod = await newPod();
    await using uplink = await newNetns();
    await host.exec('ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', uplink.name);
    await host.exec('ip', 'link', 'set', 'dev', 'up0', 'up');
    await uplink.exec('ip', 'link', 'set', 'dev', 'eth0', 'up');
    await host.exec('ip', 'address', 'add', '198.51.100.1/24', 'dev', 'up0');
    await host.exec('ip', 'route', 'add', 'default', 'via', '198.51.100.2');
    await kernel.apply(pod.network, signal);
    await pod.exec('ip', 'neigh', 'del', '169.254.1.1', 'dev', 'eth0');
    expect(await pod.pingOnce('198.51.100.1', LATE_S)).toBe(true);
    const [neighbour] = await pod.ip('neigh', 'show', '169.254.1.1');
    expect(neighbour?.['lladdr']).toBe('ee:ee:ee:ee:ee:ee');
    await host.exec('ip', 'link', 'delete', 'dev', 'up0');
  });

  it('reach an IPv4-only pod where the sandbox has IPv6 switched off', async () => {
    await using pod = await newPod({ addresses: ['10.65.0.1'] });
    await pod.exec('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1');
    await kernel.apply(pod.network, signal);
    expect(await host.pingOnce('10.65.0.1', LATE_S)).toBe(true);
    expect((await pod.exec('sysctl', '-n', 'net.ipv6.conf.eth0.disable_ipv6')).trim()).toBe('1');
  });

  it('reach a dual-stack pod where the sandbox had IPv6 switched off', async () => {
    await using pod = await newPod();
    await pod.exec('sysctl', '-qw', 'net.ipv6.conf.all.disable_ipv6=1', 'net.ipv6.conf.default.disable_ipv6=1');
    await kernel.apply(pod.network, signal);
    expect(await host.pingOnce('fd00:65::1', LATE_S)).toBe(true);
  });
});

describe('the link of a pod', () => {
  it('has its MAC, MTU and queues on both ends, and names its attachment on the host [net-mtu] [net-queues]', async () => {
    await using pod = await newPod({ mtu: 1380, queues: 3 });
    expect(await kernel.apply(pod.network, signal)).toEqual({ mtu: 1380 });
    const [inPod] = await pod.ip('-d', 'link', 'show', 'dev', 'eth0');
    const [onHost] = await host.ip('-d', 'link', 'show', 'dev', pod.network.hostLinkName);
    const common = { mtu: 1380, num_tx_queues: 3, num_rx_queues: 3, operstate: 'UP' };
    expect(inPod).toMatchObject({ ...common, address: '0a:01:02:03:04:05' });
    expect(onHost).toMatchObject({ ...common, address: 'ee:ee:ee:ee:ee:ee', inet6_addr_gen_mode: 'none' });
    expect(onHost?.['ifalias']).toBe('netplug c0ffee eth0 d1ce @10.65.0.1,fd00:65::1 pod%20net');
  });

  it("gets the kernel's MTU when none is given [net-mtu]", async () => {
    await using pod = await newPod();
    expect(await kernel.apply(pod.network, signal)).toEqual({ mtu: 1500 });
    expect(await pod.ip('link', 'show', 'dev', 'eth0')).toMatchObject([{ mtu: 1500 }]);
  });

  it('has host addresses and gateway routes only, none of them waiting for duplicates to be detected', async () => {
    await using pod = await newPod();
    await kernel.apply(pod.network, signal);
    const tentative = async (...scope: string[]): Promise<string[]> =>
      [...(await pod.ip('-6', 'address', 'show', ...scope)), ...(await host.ip('-6', 'address', 'show', ...scope))]
        .flatMap(({ addr_info: all = [] }) => all as { local?: string; tentative?: boolean }[])
        .flatMap((address) => (address.tentative === true ? (address.local ?? '') : []));
    expect(await tentative('scope', 'global')).toEqual([]);
    // The kernel's own link-local address passes through a queue, and nothing more: detection is off.
    const detection = async (place: TestNetns, link: string): Promise<string> =>
      (await place.exec('sysctl', '-n', `net.ipv6.conf.${link}.accept_dad`)).trim();
    expect([await detection(pod, 'eth0'), await detection(host, pod.network.hostLinkName)]).toEqual(['0', '0']);
    await until(async () => (await tentative()).length === 0, 'no address is tentative');
    const [link] = await pod.ip('address', 'show', 'dev', 'eth0');
    expect(link?.['addr_info']).toMatchObject([
      { local: '10.65.0.1', prefixlen: 32, scope: 'global' },
      { local: 'fd00:65::1', prefixlen: 128, scope: 'global' },
      { prefixlen: 64, scope: 'link' },
    ]);
    expect(await pod.ip('route')).toMatchObject([
      { dst: 'default', gateway: '169.254.1.1', dev: 'eth0' },
      { dst: '169.254.1.1', dev: 'eth0', scope: 'link' },
    ]);
    expect(await pod.ip('-6', 'route', 'show', 'default')).toMatchObject([{ gateway: 'fe80::ecee:eeff:feee:eeee' }]);
    const neighbours = await pod.ip('neigh', 'show', 'nud', 'permanent');
    expect(neighbours.map((neighbour) => String(neighbour['dst'])).sort()).toEqual([
      '169.254.1.1',
      'fe80::ecee:eeff:feee:eeee',
    ]);
  });

  it('gives the host side no address but the IPv6 gateway, and routes each address to it', async () => {
    await using pod = await newPod();
    await kernel.apply(pod.network, signal);
    const dev = pod.network.hostLinkName;
    const [link] = await host.ip('address', 'show', 'dev', dev);
    expect(link?.['addr_info']).toMatchObject([{ local: 'fe80::ecee:eeff:feee:eeee', prefixlen: 64 }]);
    expect(link?.['addr_info']).toHaveLength(1);
    expect(await host.ip('route', 'show', 'dev', dev)).toMatchObject([{ dst: '10.65.0.1', scope: 'link' }]);
    expect(await host.ip('-6', 'route', 'show', 'fd00:65::1')).toMatchObject([{ dst: 'fd00:65::1', dev }]);
  });

  it('sets the host side up, and observe reports later changes to it', async () => {
    await using pod = await newPod();
    await kernel.apply(pod.network, signal);
    const name = pod.network.hostLinkName;
    const read = async (setting: string): Promise<string> => (await host.exec('sysctl', '-n', setting)).trim();
    const v4 = ['forwarding', 'rp_filter', 'proxy_arp', 'route_localnet'];
    const found = v4.map(async (key) => read(`net.ipv4.conf.${name}.${key}`));
    expect(await Promise.all(found)).toEqual(['1', '1', '1', '0']);
    expect(await read(`net.ipv4.neigh.${name}.proxy_delay`)).toBe('0');
    const keys = ['accept_ra', 'accept_dad', 'disable_ipv6', 'proxy_ndp', 'forwarding'];
    const v6 = keys.map(async (key) => read(`net.ipv6.conf.${name}.${key}`));
    expect(await Promise.all(v6)).toEqual(['0', '0', '0', '1', '1']);
    await host.exec('sysctl', '-qw', `net.ipv4.conf.${name}.proxy_arp=0`);
    expect(kernel.observe(pod.network).wrongSysctls).toEqual([`net.ipv4.conf.${name}.proxy_arp=0`]);
  });
});

describe('IP forwarding in a pod', () => {
  it.each([
    [true, '1'],
    [false, '0'],
  ])(
    'is written for both families when allow_ip_forwarding is %s [net-forwarding]',
    async (allowIpForwarding, value) => {
      await using pod = await newPod({ allowIpForwarding });
      const opposite = allowIpForwarding ? '0' : '1';
      await pod.exec('sysctl', '-qw', `net.ipv4.ip_forward=${opposite}`, `net.ipv6.conf.all.forwarding=${opposite}`);
      await kernel.apply(pod.network, signal);
      const shown = await pod.exec('sysctl', '-n', 'net.ipv4.ip_forward', 'net.ipv6.conf.all.forwarding');
      expect(shown.trim().split('\n')).toEqual([value, value]);
    },
  );

  it('is not changed for a family without an address [net-forwarding]', async () => {
    await using pod = await newPod({ addresses: ['fd00:65::1'], allowIpForwarding: false });
    await pod.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1');
    await kernel.apply(pod.network, signal);
    expect((await pod.exec('sysctl', '-n', 'net.ipv4.ip_forward')).trim()).toBe('1');
  });
});
