import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { networkOf } from '../contract/suites/dataplane/kernel.ts';
import { hostContract } from '../contract/suites/dataplane/host-network.ts';
import { readHost } from '../../src/apps/agent/network/host/read-host-links.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { linuxKernel } from '../../src/dataplane/linux/linux-kernel.ts';
import { HOST_LINK_PREFIX } from '../../src/dataplane/kernel.ts';
import { formatAddress } from '../../src/net/address.ts';
import { formatCidr } from '../../src/net/cidr.ts';
import { enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

hostContract('linux', async () => {
  const scope = new AsyncDisposableStack();
  const netns = scope.use(await newNetns());
  const inside = enterNetns(netns);
  scope.defer(() => {
    inside.leave();
  });
  let pods = 0;
  return {
    host: linuxHostNetwork(),
    addInterface: async (name, addresses) => {
      // A bridge without ports is up, yet has no carrier; the other end of the pair makes it carry.
      await netns.exec(
        'ip',
        'link',
        'add',
        'name',
        name,
        'mtu',
        '1500',
        'type',
        'veth',
        'peer',
        'name',
        `${name}-peer`,
      );
      await netns.exec('sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', `net.ipv4.conf.${name}.rp_filter=2`);
      await netns.exec('ip', 'link', 'set', 'dev', `${name}-peer`, 'up');
      await netns.exec('ip', 'link', 'set', 'dev', name, 'up');
      for (const address of addresses) await netns.addAddress(address, name);
    },
    addForeignRoute: async (destination, gateway) => {
      const to = [formatCidr(destination), 'via', formatAddress(gateway)];
      await netns.exec('ip', 'route', 'add', ...to, 'metric', '77', 'proto', 'static');
    },
    countForeignRoutes: async (destination) => {
      const family = destination.base.family === 4 ? '-4' : '-6';
      const routes = await netns.ip(family, 'route', 'show', 'exact', formatCidr(destination));
      return routes.filter(({ protocol }) => protocol !== '118').length;
    },
    addLearnedRoute: async (destination, gateway, metric) => {
      const to = [formatCidr(destination), 'via', formatAddress(gateway)];
      await netns.exec('ip', 'route', 'add', ...to, 'metric', String(metric), 'proto', 'bird');
    },
    deleteRoute: async ({ destination }) => {
      const family = destination.base.family === 4 ? '-4' : '-6';
      await netns.exec('ip', family, 'route', 'delete', formatCidr(destination), 'proto', '118');
    },
    checkSources: async (link) => {
      await netns.exec('sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', `net.ipv4.conf.${link}.rp_filter=1`);
    },
    stopForwarding: async (link) => {
      await netns.exec('sysctl', '-qw', `net.ipv4.conf.${link}.forwarding=0`);
    },
    addOrdinaryLink: async (name) => {
      await netns.exec('ip', 'link', 'add', 'name', name, 'type', 'bridge');
    },
    addPodLink: async () => {
      const name = `${HOST_LINK_PREFIX}${String((pods += 1))}`;
      await netns.exec('ip', 'link', 'add', 'name', name, 'type', 'veth', 'peer', 'name', `pod${String(pods)}`);
    },
    until: async (isTrue, what) => until(isTrue, what, 60_000, 5),
    [Symbol.asyncDispose]: async () => scope.disposeAsync(),
  };
});

it('lists all addresses of links, also of one without carrier, deprecated, tentative and link-local ones', async () => {
  await using netns = await newNetns();
  await netns.exec('ip', 'link', 'add', 'name', 'quiet0', 'type', 'bridge');
  await netns.exec('ip', 'link', 'set', 'dev', 'quiet0', 'up');
  const added = ['192.0.2.1/24', '169.254.7.1/16', '2001:db8::1/64', 'fe80::7/64'];
  for (const address of added) await netns.exec('ip', 'address', 'add', address, 'dev', 'quiet0');
  await netns.exec('ip', 'address', 'add', '2001:db8::2/64', 'dev', 'quiet0', 'preferred_lft', '0');
  const inside = enterNetns(netns);
  try {
    const { interfaces } = (await readHost(linuxHostNetwork(), [])).links;
    const expected = ['192.0.2.1', '169.254.7.1', '2001:db8::1', '2001:db8::2', 'fe80::7'];
    expect(interfaces.find(({ name }) => name === 'quiet0')?.addresses).toEqual(expect.arrayContaining(expected));
  } finally {
    inside.leave();
  }
});

it('reports settings of the link of a pod that another program changed, and nothing when it was made', async () => {
  await using host = await newNetns();
  await using pod = await newNetns();
  const inside = enterNetns(host);
  const network = networkOf(pod.path);
  let events: string[] = [];
  using _watch = linuxHostNetwork().watch(({ kind }) => void events.push(kind));
  try {
    await linuxKernel().apply(network, new AbortController().signal);
    const link = network.hostLinkName;
    await host.addAddress('192.0.2.7/32', 'lo');
    await until(() => events.includes('links'), 'the watch is up to date');
    expect(events).not.toContain('pod-settings');
    for (const setting of [
      'ipv4.conf.LINK.forwarding=0',
      'ipv4.conf.LINK.rp_filter=0',
      'ipv4.conf.LINK.proxy_arp=0',
      'ipv6.conf.LINK.proxy_ndp=0',
      'ipv6.conf.LINK.forwarding=0',
    ]) {
      events = [];
      await host.exec('sysctl', '-qw', `net.${setting.replace('LINK', link)}`);
      await until(() => events.includes('pod-settings'), setting);
    }
  } finally {
    inside.leave();
  }
});

it('reports that a link of a pod lost a route or was set down, and nothing when it was made', async () => {
  await using host = await newNetns();
  await using pod = await newNetns();
  const inside = enterNetns(host);
  const network = networkOf(pod.path);
  let events: string[] = [];
  using _watch = linuxHostNetwork().watch(({ kind }) => void events.push(kind));
  try {
    await linuxKernel().apply(network, new AbortController().signal);
    const link = network.hostLinkName;
    await host.addAddress('192.0.2.7/32', 'lo');
    await until(() => events.includes('links'), 'the watch is up to date');
    expect(events).not.toContain('pod-links');
    for (const harm of [
      ['route', 'del', '10.65.0.1/32'],
      ['-6', 'route', 'del', 'fd00:65::1/128'],
      ['link', 'set', 'dev', link, 'down'],
    ]) {
      events = [];
      await host.exec('ip', ...harm);
      await until(() => events.includes('pod-links'), harm.join(' '));
    }
  } finally {
    inside.leave();
  }
});

it('restores forwarding of a link as it was before netplug changed it', async () => {
  await using netns = await newNetns();
  await netns.exec('ip', 'link', 'add', 'name', 'up0', 'type', 'bridge');
  await netns.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.up0.forwarding=0');
  const recordFolder = await mkdtemp(join(tmpdir(), 'netplug-settings-'));
  const inside = enterNetns(netns);
  try {
    const host = linuxHostNetwork({ recordFolder });
    expect(host.ensureForwarding(new Set([4]), ['up0'])).toEqual(['net.ipv4.conf.up0.forwarding=0']);
    expect(host.findChangedSettings()).toEqual(['net.ipv4.conf.up0.forwarding=0']);
    host.restoreSettings();
    const settings = ['net.ipv4.ip_forward', 'net.ipv4.conf.up0.forwarding'];
    expect((await netns.exec('sysctl', '-n', ...settings)).split('\n')).toEqual(['1', '0', '']);
  } finally {
    inside.leave();
    await rm(recordFolder, { recursive: true });
  }
});
