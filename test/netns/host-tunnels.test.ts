import { describe, expect, it } from 'vitest';
import { isNetplugError } from '../../src/base/errors.ts';
import { vxlan } from '../contract/suites/dataplane/host-network.ts';
import type { Tunnel } from '../../src/dataplane/host-network.ts';
import { loadAddon } from '../../src/dataplane/linux/addon.ts';
import { linuxHostNetwork } from '../../src/dataplane/linux/host-network.ts';
import { parseAddress } from '../../src/net/address.ts';
import { parseCidr } from '../../src/net/cidr.ts';
import { type TestNetns, enterNetns, newNetns } from '../support/netns.ts';
import { until } from '../support/until.ts';

const never = new AbortController().signal;

interface Node extends AsyncDisposable {
  readonly netns: TestNetns;
  /** Runs `inside` with the test in the node. */
  within<T>(inside: () => Promise<T>): Promise<T>;
}

async function newNode(): Promise<Node> {
  const netns = await newNetns();
  return {
    netns,
    within: async (inside) => {
      const place = enterNetns(netns);
      try {
        return await inside();
      } finally {
        place.leave();
      }
    },
    [Symbol.asyncDispose]: async () => netns[Symbol.asyncDispose](),
  };
}

/** Two nodes, `up0` to `up0`. */
async function connect(one: Node, other: Node): Promise<void> {
  const pair = ['name', 'up0', 'type', 'veth', 'peer', 'name', 'up0', 'netns', other.netns.name];
  await one.netns.exec('ip', 'link', 'add', ...pair);
  for (const [{ netns }, number] of [
    [one, '1'],
    [other, '2'],
  ] as const) {
    await netns.addAddress(`192.0.2.${number}/24`, 'up0');
    await netns.addAddress(`2001:db8::${number}/64`, 'up0');
    await netns.exec('ip', 'link', 'set', 'dev', 'up0', 'up');
  }
  // Until the kernel's link watcher has run, a veth carries nothing.
  for (const { netns } of [one, other])
    await until(
      async () => (await netns.ip('link', 'show', 'dev', 'up0'))[0]?.['operstate'] === 'UP',
      'the link of the nodes carries packets',
    );
}

describe('tunnels on a real host', () => {
  it.each([
    ['IPv4', ['192.0.2.1', '192.0.2.2']],
    ['IPv6', ['2001:db8::1', '2001:db8::2']],
  ])('carry packets of both families over %s', async (_family, underlay) => {
    await using one = await newNode();
    await using other = await newNode();
    await connect(one, other);
    const ends = [
      { node: one, local: underlay[0]!, mac: '0a:00:00:00:00:01', addresses: ['10.65.1.1', 'fd00:65:1::1'] },
      { node: other, local: underlay[1]!, mac: '0a:00:00:00:00:02', addresses: ['10.65.2.1', 'fd00:65:2::1'] },
    ];
    for (const [index, { node, ...end }] of ends.entries()) {
      const far = ends[1 - index]!;
      await node.within(async () => {
        const host = linuxHostNetwork();
        await host.putTunnel(vxlan(end));
        const changes = far.addresses.flatMap((text) => {
          const gateway = parseAddress(text);
          const peer = { device: 'tun0', gateway, mac: far.mac, remote: parseAddress(far.local) };
          const destination = parseCidr(text.includes(':') ? `${text.slice(0, -1)}/122` : text.replace(/1$/, '0/26'));
          const hop = { kind: 'gateway', gateway, device: 'tun0', isOnLink: true } as const;
          return [{ kind: 'put-peer', peer } as const, { kind: 'put-route', route: { destination, hop } } as const];
        });
        expect(await host.change(changes, never)).toEqual([]);
      });
    }
    expect([await one.netns.ping('10.65.2.1'), await one.netns.ping('fd00:65:2::1')]).toEqual([true, true]);
  });

  it('have the desired state in the kernel', async () => {
    await using node = await newNode();
    await using other = await newNode();
    await connect(node, other);
    await node.within(async () => linuxHostNetwork().putTunnel(vxlan()));
    const [shown] = await node.netns.ip('-d', 'link', 'show', 'dev', 'tun0');
    expect(shown).toMatchObject({
      address: '0a:00:00:00:00:01',
      mtu: 1400,
      ifalias: 'netplug tunnel',
      inet6_addr_gen_mode: 'none',
      linkinfo: { info_data: { id: 4096, port: 4789, local: '192.0.2.1', link: 'up0', learning: false } },
    });
    const [{ addr_info: addresses }] = (await node.netns.ip('address', 'show', 'dev', 'tun0')) as [
      { addr_info: readonly { local: string; prefixlen: number }[] },
    ];
    expect(addresses.map(({ local, prefixlen }) => `${local}/${String(prefixlen)}`)).toEqual([
      '10.65.0.1/32',
      'fd00:65::1/128',
    ]);
    const sysctls = ['net.ipv4.conf.tun0.rp_filter', 'net.ipv6.conf.tun0.accept_ra'];
    expect((await node.netns.exec('sysctl', '-n', ...sysctls)).split('\n')).toEqual(['2', '0', '']);
  });

  it('forward IPv4 although new links do not, and again after another program stopped that', async () => {
    await using node = await newNode();
    await using other = await newNode();
    await connect(node, other);
    await node.netns.exec('sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv4.conf.default.forwarding=0');
    const forwarding = async (): Promise<string> => node.netns.exec('sysctl', '-n', 'net.ipv4.conf.tun0.forwarding');
    await node.within(async () => {
      const host = linuxHostNetwork();
      const devices: string[] = [];
      using _watch = host.watch((event) => devices.push(...(event.kind === 'settings' ? event.devices : [])));
      await host.putTunnel(vxlan());
      expect(await forwarding()).toBe('1\n');
      for (const setting of ['forwarding=0', 'rp_filter=1']) {
        devices.length = 0;
        await node.netns.exec('sysctl', '-qw', `net.ipv4.conf.tun0.${setting}`);
        await until(() => devices.includes('tun0'), `${setting} is reported`);
        expect(await host.putTunnel(vxlan())).toBe('changed');
      }
      expect(await forwarding()).toBe('1\n');
    });
    await node.within(async () => linuxHostNetwork().removeTunnel('tun0'));
    await node.within(async () => linuxHostNetwork().putTunnel(vxlan({ local: '2001:db8::1' })));
    expect(await forwarding()).toBe('0\n');
  });

  it('are repaired after a foreign change, and completed after an agent died', async () => {
    await using node = await newNode();
    await using other = await newNode();
    await connect(node, other);
    const put = async (): Promise<string> => node.within(async () => linuxHostNetwork().putTunnel(vxlan()));
    await put();
    const changes: readonly [string, ...string[]][] = [
      ['ip', 'link', 'set', 'dev', 'tun0', 'mtu', '1300'],
      ['ip', 'link', 'set', 'dev', 'tun0', 'alias', ''],
      ['ip', 'address', 'add', '10.9.9.9/24', 'dev', 'tun0'],
      ['ip', 'address', 'delete', '10.65.0.1/32', 'dev', 'tun0'],
      ['sysctl', '-w', 'net.ipv4.conf.tun0.rp_filter=1'],
      ['sysctl', '-w', 'net.ipv6.conf.tun0.accept_ra=1'],
    ];
    await node.netns.exec('ip', 'link', 'set', 'dev', 'tun0', 'down');
    expect([await put(), await put()]).toEqual(['replaced', 'unchanged']);
    for (const change of changes) {
      await node.netns.exec(...change);
      expect([change, await put(), await put()]).toEqual([change, 'changed', 'unchanged']);
    }
  });

  it('do not change a VXLAN device of another program', async () => {
    await using node = await newNode();
    await node.netns.exec('ip', 'link', 'add', 'name', 'tun0', 'type', 'vxlan', 'id', '7', 'dstport', '8472');
    await node.netns.exec('ip', 'link', 'set', 'dev', 'tun0', 'alias', 'of another program');
    expect(await node.within(async () => linuxHostNetwork().removeTunnel('tun0'))).toBe(false);
  });

  it.each([
    ['192.0.2.1', 'local 192.0.2.1'],
    ['2001:db8::1', 'local 2001:db8::1'],
  ])('of %s name the device of another program that has their number and port', async (local, words) => {
    await using node = await newNode();
    await node.netns.exec('ip', 'link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'up1');
    await node.netns.exec(
      'ip',
      'link',
      'add',
      'vxlan.old',
      'type',
      'vxlan',
      'id',
      '4096',
      'dstport',
      '4789',
      ...words.split(' '),
    );
    await node.netns.exec(
      'ip',
      'link',
      'add',
      'vxlan.other',
      'type',
      'vxlan',
      'id',
      '4097',
      'dstport',
      '4789',
      ...words.split(' '),
    );
    await node.within(async () => {
      const host = linuxHostNetwork();
      const tunnel = vxlan();
      const encapsulation = {
        kind: 'vxlan',
        mac: 'ee:00:00:00:00:01',
        vni: 4096,
        port: 4789,
        local: parseAddress(local),
        uplink: 'up0',
      } as const;
      const wanted = { ...tunnel, name: 'tun0', encapsulation } as Tunnel;
      expect(await host.findRivals({ vni: 4096, port: 4789 })).toEqual(['vxlan.old']);
      const refused = await host.putTunnel(wanted).catch((cause: unknown) => cause);
      expect(refused).toMatchObject({
        code: 'kernel/tunnel-taken',
        hint: expect.stringContaining('ip link delete dev vxlan.old'),
      });
      await node.netns.exec('ip', 'link', 'delete', 'vxlan.old');
      expect(await host.putTunnel(wanted)).toBe('changed');
      expect(await host.findRivals({ vni: 4096, port: 4789 })).toEqual([]);
    });
  });

  it('compute checksums where NETPLUG_VXLAN_CHECKSUMS says', async () => {
    await using node = await newNode();
    await using other = await newNode();
    await connect(node, other);
    await node.within(async () => {
      const addon = loadAddon();
      const software = linuxHostNetwork({ vxlanChecksums: () => 'software' });
      expect([await software.putTunnel(vxlan()), addon.txChecksum('tun0')]).toEqual(['changed', 0]);
      expect(await software.putTunnel(vxlan())).toBe('unchanged');
      expect(await linuxHostNetwork().putTunnel(vxlan())).toBe('unchanged');
      const offload = linuxHostNetwork({ vxlanChecksums: () => 'offload' });
      expect([await offload.putTunnel(vxlan()), addon.txChecksum('tun0')]).toEqual(['changed', 1]);
      expect(addon.txChecksum('nowhere0')).toBeLessThan(0);
      expect(addon.txChecksum('a name that is far too long')).toBeLessThan(0);
    });
  });

  it('are created with kind ipip, or refused with the name of the missing module', async (context) => {
    await using node = await newNode();
    const tunnel: Tunnel = {
      name: 'ipip0',
      mtu: 1480,
      addresses: [parseAddress('10.65.0.1')],
      encapsulation: { kind: 'ipip', local: parseAddress('192.0.2.1') },
    };
    const put = async (): Promise<string> => node.within(async () => linuxHostNetwork().putTunnel(tunnel));
    const refusal = await put().catch((cause: unknown) => cause);
    if (isNetplugError(refusal, 'kernel/module-missing') && refusal.hint?.includes('modprobe ipip') === true) {
      context.skip('this kernel has no module ipip');
    }
    expect(refusal).toBe('changed');
    const [shown] = await node.netns.ip('-d', 'link', 'show', 'dev', 'ipip0');
    expect(shown).toMatchObject({ mtu: 1480, linkinfo: { info_data: { local: '192.0.2.1', remote: 'any' } } });
    expect(await put()).toBe('unchanged');
  });
});
