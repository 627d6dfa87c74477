// What the kernel's state may be in the way of, and what is left after a refusal: nothing.
import { closeSync, openSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { networkOf, refusalOf } from '../contract/suites/dataplane/kernel.ts';
import type { PodNetwork } from '../../src/dataplane/kernel.ts';
import { encodeAlias } from '../../src/dataplane/link-alias.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const signal = new AbortController().signal;
const kernel = linuxKernel();
let host: TestNetns;
let inside: ReturnType<typeof enterNetns>;

beforeAll(async () => {
  host = await newNetns();
  inside = enterNetns(host);
  await host.exec('ip', 'address', 'add', '192.0.2.1/32', 'dev', 'lo');
});

afterAll(async () => {
  inside.leave();
  await host[Symbol.asyncDispose]();
});

const onHost = async (...args: string[]): Promise<string> => host.exec('ip', ...args);
const linkNames = async (netns: TestNetns): Promise<string[]> =>
  (await netns.ip('link')).map((link) => String(link['ifname']));

describe('a route of the host for the address', () => {
  it.each([
    ['blackhole', ['route', 'add', 'blackhole', '10.65.0.1/32'], 'blackhole route 10.65.0.1/32'],
    ['unreachable', ['route', 'add', 'unreachable', '10.65.0.1/32'], 'unreachable route 10.65.0.1/32'],
    ['prohibit', ['route', 'add', 'prohibit', '10.65.0.1/32'], 'prohibit route 10.65.0.1/32'],
    ['throw', ['route', 'add', 'throw', '10.65.0.1/32'], 'throw route 10.65.0.1/32'],
    ['blackhole (IPv6)', ['-6', 'route', 'add', 'blackhole', 'fd00:65::1/128'], 'blackhole route fd00:65::1/128'],
    ['less preferred', ['route', 'add', '10.65.0.1/32', 'dev', 'lo', 'metric', '50'], '10.65.0.1/32 on device "lo"'],
    ['local', ['address', 'add', '10.65.0.1/32', 'dev', 'lo'], 'local route 10.65.0.1/32 on device "lo"'],
    ['local (IPv6)', ['address', 'add', 'fd00:65::1/128', 'dev', 'lo'], 'local route fd00:65::1/128 on device "lo"'],
  ])('is foreign when it is %s, is named, and stays', async (_kind, add, named) => {
    await using pod = await newNetns();
    await onHost(...add);
    // The kernel adds the local route of an IPv6 address a moment after the address itself.
    if (add.includes('fd00:65::1/128') && add[0] === 'address')
      await until(async () => (await onHost('-6', 'route', 'show', 'table', 'local', 'fd00:65::1')) !== '', named);
    const refusal = await refusalOf(kernel.apply(networkOf(pod.path, { allowIpForwarding: true }), signal));
    expect([refusal.code, refusal.message]).toEqual(['kernel/foreign-route', expect.stringContaining(named)]);
    expect(kernel.listHostLinks()).toEqual([]);
    expect(await linkNames(pod)).toEqual(['lo']);
    expect((await pod.exec('sysctl', '-n', 'net.ipv4.ip_forward')).trim()).toBe('0');
    await onHost(...add.map((word) => (word === 'add' ? 'delete' : word)));
  });

  it('does not conflict when it covers a range, even as a blackhole', async () => {
    await using pod = await newNetns();
    await onHost('route', 'add', 'blackhole', '10.65.0.0/26');
    await onHost('-6', 'route', 'add', 'blackhole', 'fd00:65::/122');
    const network = networkOf(pod.path);
    await kernel.apply(network, signal);
    expect(await host.pingOnce('10.65.0.1')).toBe(true);
    expect(await host.pingOnce('fd00:65::1')).toBe(true);
    await kernel.remove(network.hostLinkName, network.owner);
    await onHost('route', 'delete', 'blackhole', '10.65.0.0/26');
    await onHost('-6', 'route', 'delete', 'blackhole', 'fd00:65::/122');
  });
});

describe('a namespace path', () => {
  const codeOf = (path: string): string => {
    try {
      kernel.assertNetns(path);
      return 'accepted';
    } catch (cause) {
      return (cause as { code: string }).code;
    }
  };

  it.each(['/run/netns/nowhere', '/etc/hostname', '/tmp', '/proc/self/ns/pid', '/etc/hostname/x', 'relative', ''])(
    'is refused when it is %j',
    (path) => {
      expect(codeOf(path)).toBe('kernel/netns-invalid');
    },
  );

  it('is refused when it is the plugin’s own namespace, unless allowed', () => {
    expect(codeOf(host.path)).toBe('kernel/netns-invalid');
    linuxKernel({ allowOwnNetns: true }).assertNetns(host.path);
  });

  it('is accepted as the path of an open file', async () => {
    await using pod = await newNetns();
    const fd = openSync(pod.path, 'r');
    expect(codeOf(`/proc/self/fd/${String(fd)}`)).toBe('accepted');
    closeSync(fd);
  });
});

describe('a failure in the middle of apply', () => {
  it("leaves nothing, and reports the attempt and the kernel's error", async () => {
    await using pod = await newNetns();
    await pod.exec('sysctl', '-qw', 'net.ipv6.conf.all.forwarding=1');
    const network = networkOf(pod.path, { addresses: ['10.65.0.1', 'fd00:65::1'] });
    // A multicast address is refused for a link, after everything before it went well.
    const broken = networkOf(pod.path, { addresses: ['10.65.0.1', 'ff02::1'] });
    const refusal = await refusalOf(kernel.apply(broken, signal));
    expect(refusal.code).toBe('kernel/failed');
    expect(refusal.message).toContain(`add address ff02::1/128 to interface "eth0" in namespace "${pod.path}"`);
    expect(refusal.message).toMatch(/the kernel says E[A-Z]+/);
    expect(await linkNames(host)).toEqual(['lo']);
    expect(await linkNames(pod)).toEqual(['lo']);
    expect(await host.exec('ip', 'route')).toBe('');
    expect((await pod.exec('sysctl', '-n', 'net.ipv6.conf.all.forwarding')).trim()).toBe('1');
    await kernel.apply(network, signal);
    expect(await kernel.remove(network.hostLinkName, network.owner)).toBe(true);
  });

  it('names the MTU when it is impossible [net-mtu]', async () => {
    await using pod = await newNetns();
    const refusal = await refusalOf(kernel.apply(networkOf(pod.path, { mtu: 70_000 }), signal));
    expect(refusal.message).toMatch(/"eth0".*MTU 70000.*EINVAL/);
    expect(await linkNames(host)).toEqual(['lo']);
  });
});

describe('removal', () => {
  it('removes a link without an alias, and no foreign link', async () => {
    await onHost('link', 'add', 'name', 'npl1', 'type', 'veth', 'peer', 'name', 'peer1');
    await onHost('link', 'add', 'name', 'npl2', 'alias', 'foreign', 'type', 'veth', 'peer', 'name', 'peer2');
    await onHost('link', 'set', 'dev', 'npl2', 'alias', 'foreign');
    expect(await kernel.remove('npl1', { containerId: 'c', ifName: 'eth0' })).toBe(true);
    expect(await kernel.remove('npl2', { containerId: 'c', ifName: 'eth0' })).toBe(false);
    expect((await linkNames(host)).sort()).toEqual(['lo', 'npl2', 'peer2']);
    await onHost('link', 'delete', 'dev', 'npl2');
  });

  it('leaves a link alone that an ADD of another process is making: its owner is set a moment later', async () => {
    await onHost('link', 'add', 'name', 'npl1', 'type', 'veth', 'peer', 'name', 'peer1');
    const removed = kernel.remove('npl1', { containerId: 'old', ifName: 'eth0' });
    await onHost(
      'link',
      'set',
      'dev',
      'npl1',
      'alias',
      encodeAlias({ containerId: 'new', ifName: 'eth0', network: 'n' }),
    );
    expect(await removed).toBe(false);
    expect(await linkNames(host)).toContain('npl1');
    await onHost('link', 'delete', 'dev', 'npl1');
  });

  it('of 16 pods at once leaves nothing and is faster than of as many one after the other', async () => {
    await using scope = new AsyncDisposableStack();
    const pods: TestNetns[] = [];
    for (let index = 0; index < 32; index += 1) pods.push(scope.use(await newNetns()));
    const networks = pods.map((pod, index) =>
      networkOf(pod.path, {
        hostLinkName: `npl${String(index)}`,
        containerId: `c${String(index)}`,
        addresses: [`10.65.2.${String(index)}`, `fd00:65::2:${String(index)}`],
      }),
    );
    await Promise.all(networks.map(async (network) => kernel.apply(network, signal)));
    expect(kernel.listHostLinks()).toHaveLength(32);
    expect(await pods[5]!.pingOnce('10.65.2.31')).toBe(true);
    const [singly, together] = [networks.slice(0, 16), networks.slice(16)];
    const remove = async ({ hostLinkName, owner }: PodNetwork): Promise<boolean> => kernel.remove(hostLinkName, owner);
    const startMs = performance.now();
    // Each sleeps for at least 16 ms.
    for (const network of singly) expect(await remove(network)).toBe(true);
    const betweenMs = performance.now();
    expect((await Promise.all(together.map(remove))).every(Boolean)).toBe(true);
    expect(performance.now() - betweenMs).toBeLessThan(betweenMs - startMs);
    expect(await linkNames(host)).toEqual(['lo']);
    for (const pod of pods) expect(await linkNames(pod)).toEqual(['lo']);
    expect(await host.exec('ip', 'route')).toBe('');
  });
});
